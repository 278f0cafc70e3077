"""The Temporal client: connection, converters, codec, and logging of activities."""
