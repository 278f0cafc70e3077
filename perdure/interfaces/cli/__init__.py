"""The command line: commands on cyclopts, pictures on rich, both over the services handed in."""
