"""Running git for reading, with nothing of a repository's own configuration."""
