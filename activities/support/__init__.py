"""What activities share: prompts, the journalled model, heartbeats, errors."""
