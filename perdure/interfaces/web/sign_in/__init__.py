"""The way in: a token of the API, or a ticket from the command line."""
