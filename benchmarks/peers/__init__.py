"""Agent frameworks with a Temporal plugin, each in an environment of its own beside its worker."""
