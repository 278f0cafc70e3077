"""The list of all runs, newest first."""
