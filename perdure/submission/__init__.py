"""Turns task files, defaults, flags and references into specifications."""
