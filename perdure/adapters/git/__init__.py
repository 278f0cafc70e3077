"""Runs git safely: without the configuration of the repository, the user or the machine."""
