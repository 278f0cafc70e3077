"""The runs below a run, and the stages of its iterations."""
