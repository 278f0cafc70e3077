"""The tree of runs below a run: each run knows its own children, so it is asked level by level."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.run.child_runs import ChildStatus
from perdure.domain.run.status import RunStatus
from perdure.interfaces.services import RunGateway

MOST_LOOKS = 12
SPAWNING = frozenset({"delegation", "roles"})


@dataclass(frozen=True, slots=True)
class Below:
    """One run of a tree, and the runs below it as far as they were looked up."""

    run: ChildStatus
    below: tuple["Below", ...] = ()


async def tree_below(
    gateway: RunGateway, status: RunStatus, *, looks: int = MOST_LOOKS
) -> tuple[Below, ...]:
    """The runs below one, in the order in which they began.

    At most `looks` runs are asked, the open ones first; a run that cannot be asked stays a leaf.
    """
    known: dict[str, Sequence[ChildStatus]] = {status.id: status.runs_below}
    asking = _spawning(status.runs_below)
    while asking and looks > 0:
        child = asking.pop(0)
        looks -= 1
        try:
            found = await gateway.status(child.id)
        except PerdureError:
            continue
        known[child.id] = found.runs_below
        asking += _spawning(found.runs_below)
    return _nodes(status.id, known)


def _spawning(children: Sequence[ChildStatus]) -> list[ChildStatus]:
    able = (child for child in children if child.kind in SPAWNING)
    return sorted(able, key=lambda child: not child.open)


def _nodes(run: str, known: dict[str, Sequence[ChildStatus]]) -> tuple[Below, ...]:
    return tuple(Below(child, _nodes(child.id, known)) for child in known.get(run, ()))
