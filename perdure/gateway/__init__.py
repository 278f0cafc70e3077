"""The gateway: the only way from a door to Temporal."""
