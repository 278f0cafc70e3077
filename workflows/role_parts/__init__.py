"""The stages of the role loop."""
