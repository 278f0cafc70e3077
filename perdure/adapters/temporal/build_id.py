"""The build id of this code: workers with the same id can replay each other's runs."""

import hashlib
import importlib.util
from functools import cache
from pathlib import Path

from perdure.about import VERSION

# Both packages decide what a loop does: workflows await, the domain chooses the next step.
DECIDING = ("perdure.workflows", "perdure.domain")
DIGITS = 12


@cache
def build_id() -> str:
    """The package's version and a digest of all code that runs in workflows."""
    return f"{VERSION}-{workflow_digest()[:DIGITS]}"


def workflow_digest() -> str:
    """SHA-256 over names and contents of the deciding modules, wherever they are installed."""
    digest = hashlib.sha256()
    for package in DECIDING:
        spec = importlib.util.find_spec(package)
        folders = spec.submodule_search_locations if spec else None
        if not folders:
            raise FileNotFoundError(f"the sources of {package} are not on this disk")
        (folder,) = (Path(one) for one in folders)
        # File systems list in orders of their own, and every worker must get the same id.
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{package}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()
