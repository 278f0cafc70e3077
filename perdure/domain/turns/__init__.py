"""The turn engine of every kind of run: a model, its tool calls, and what follows a reply."""
