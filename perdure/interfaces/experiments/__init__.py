"""Experiments as people read them: statistics, the report, and the forms in which it is written."""
