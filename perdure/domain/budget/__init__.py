"""What a run may spend, and the journal of what it spent."""
