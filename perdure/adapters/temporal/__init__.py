"""The client of Temporal: connection, converters, codec, and what activities log."""
