"""The command line: commands with cyclopts, views with rich, both over the given services."""
