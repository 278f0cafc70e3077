"""Which versions of interfaces and workers go together: those within one minor version."""

from typing import Literal

Standing = Literal["alike", "older", "newer", "apart"]


def standing(worker: str, client: str) -> Standing:
    """How a worker's version stands to that of the client that starts a run.

    Within one minor version either side leaves out what it does not know of the other. Versions
    that cannot be read count as alike.
    """
    theirs, ours = _minor(worker), _minor(client)
    if theirs is None or ours is None or theirs == ours:
        return "alike"
    if theirs[0] != ours[0] or abs(theirs[1] - ours[1]) > 1:
        return "apart"
    return "older" if theirs < ours else "newer"


def _minor(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])
