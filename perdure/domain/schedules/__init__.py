"""Schedules: a task that starts by the clock, within a budget of each month."""
