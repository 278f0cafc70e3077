"""The stages of the refine loop."""
