"""Runs foreign code: Python of a rubric, generated tools, programs on the files of a run."""
