"""Evaluates the files of an iteration with commands, test suites and linters."""
