"""What all runs cost."""
