"""The commands, grouped by what a person wants; each is thin and ends with an exit code."""
