"""Two runs, or two iterations, side by side."""
