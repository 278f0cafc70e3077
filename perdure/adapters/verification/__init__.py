"""Evaluating the files of an iteration: commands, test suites and linters, and their reports."""
