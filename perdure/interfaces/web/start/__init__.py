"""Starting a run: a form, its plan with the worst cost, then the run."""
