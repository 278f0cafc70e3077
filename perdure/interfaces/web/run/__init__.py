"""One run: what it does, what it made and cost, and the actions on it."""
