"""The envelope of a run, and the journal of what it spent."""
