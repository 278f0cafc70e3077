"""Starting a run: a form, what it could cost, and then the run."""
