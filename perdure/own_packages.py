"""Importing this makes `workflows` and `activities` mean Perdure's own, whatever lies on the path.

They lie beside this package, in a checkout as in an installed wheel. A user's `workflows.py` in a
folder of `PYTHONPATH`, where plugins are found, would be taken in their place and end the worker.
Only processes that are all ours import this: in a program of a user the names are the user's.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

OWN = frozenset({"workflows", "activities"})
BESIDE = Path(__file__).parent.parent


class OwnPackages(MetaPathFinder):
    """Finds the two packages beside ours, and nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where one of them is; None for every other name."""
        folder = BESIDE / fullname
        if fullname not in OWN or not folder.is_dir():
            return None
        return spec_from_file_location(
            fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )


if not any(isinstance(finder, OwnPackages) for finder in sys.meta_path):
    sys.meta_path.insert(0, OwnPackages())
