"""Settings from files and from the environment, and their order of precedence."""
