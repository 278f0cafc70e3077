"""What a manager's run is made of."""
