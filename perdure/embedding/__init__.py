"""What a worker and a workflow of somebody else need to work with loops."""
