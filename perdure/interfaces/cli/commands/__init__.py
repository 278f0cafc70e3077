"""The commands, grouped by purpose; each is thin and ends with an exit code."""
