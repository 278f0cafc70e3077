"""Signing in: with an API token, a ticket from the command line, or an identity provider."""
