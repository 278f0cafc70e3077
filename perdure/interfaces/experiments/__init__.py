"""Experiments for readers: statistics, the report, and its output formats."""
