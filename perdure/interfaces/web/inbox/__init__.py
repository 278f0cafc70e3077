"""Open questions to people, and their answers."""
