"""Schedules: the list, one with its month and its last starts, and the form of a new one."""
