"""Where loop definitions and role files come from: the package, the home, and workspaces."""

from perdure.adapters.definitions.store import LoopFiles

__all__ = ["LoopFiles"]
