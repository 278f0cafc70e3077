"""Experiments: the list, and the report of one."""
