"""Logs of this process, without secrets."""
