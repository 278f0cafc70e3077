"""What waits for a person, and the answers."""
