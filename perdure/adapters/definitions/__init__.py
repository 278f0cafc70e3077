"""Where loop definitions and role files come from: the package, the home, and workspaces."""
