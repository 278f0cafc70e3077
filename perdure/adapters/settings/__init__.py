"""Settings: from files, from the environment, and which of them wins."""
