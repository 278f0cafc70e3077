"""Running code that nobody here wrote: Python of a rubric, programs on the files of a run."""
