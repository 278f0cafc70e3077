"""Loop definitions and role files: in the package, the home folder and workspaces."""
