"""The tree of runs below a run, and the open questions of its runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.ports import BlobStore
from perdure.domain.run.child_questions import questions_by_name
from perdure.domain.run.child_runs import ChildStatus
from perdure.domain.run.gates import Gate, read_name
from perdure.domain.run.status import RunStatus
from perdure.gateway.types import OpenGate, OpenGates
from perdure.interfaces.gateways import RunGateway

MOST_LOOKS = 12
SPAWNING = frozenset({"delegation", "roles"})


@dataclass(frozen=True, slots=True)
class Below:
    """One run of a tree, with the runs below it as far as they were queried."""

    run: ChildStatus
    below: tuple["Below", ...] = ()


async def tree_below(
    gateway: RunGateway, status: RunStatus, *, looks: int = MOST_LOOKS
) -> tuple[Below, ...]:
    """The runs below a run, in the order of their starts.

    At most `looks` runs are queried, open ones first; a run that cannot be queried becomes a leaf.
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
    # Open ones first: what has ended is known already, and the looks are few.
    return sorted(able, key=lambda child: not child.open)


def _nodes(run: str, known: dict[str, Sequence[ChildStatus]]) -> tuple[Below, ...]:
    return tuple(Below(child, _nodes(child.id, known)) for child in known.get(run, ()))


async def open_gates(gateway: RunGateway, run: str | None = None) -> OpenGates:
    """Open questions, oldest first: all, or those of one run and the runs below it."""
    if run is None:
        return await gateway.gates()
    return await gates_of_tree(gateway, await gateway.status(await gateway.resolve(run)))


async def gates_of_tree(gateway: RunGateway, status: RunStatus) -> OpenGates:
    """The questions of a run and those below it; runs that do not answer are in `unread`."""
    known, unread, reasons = [status], list[str](), dict[str, str]()
    for run in dict.fromkeys(question.run for question in status.questions):
        try:
            known.append(await gateway.status(run))
        except PerdureError as error:
            unread.append(run)
            reasons |= {run: str(error)}
    found = [gate for one in known for gate in _own(one)]
    for one in known:
        if one.source == "store" and one.lifecycle == "waiting":
            # Read from the store, the status has no questions: no worker answered, or its answer
            # could not be read here.
            unread.append(one.id)
            reasons |= {one.id: one.trouble} if one.trouble else {}
    oldest_first = sorted(found, key=lambda item: item.gate.opened_at)
    return OpenGates(gates=tuple(oldest_first), unread=tuple(unread), reasons=reasons)


async def asked_here(gateway: RunGateway, status: RunStatus, named: str) -> list[OpenGate]:
    """The open gates with a name: those of the run itself, else of the runs below it.

    `RUN:g1` means a gate of that run alone, though the run itself may ask under the same number.
    """
    run, _, name = named.strip().rpartition(":")
    own = [item for item in _own(status) if item.gate.id == read_name(name).id]
    if own and run in ("", status.id):
        return own
    found: list[OpenGate] = []
    for question in questions_by_name(status.questions, named):
        asking = _own(await gateway.status(question.run))
        found += [item for item in asking if item.gate.id == read_name(question.gate).id]
    return found


def _own(status: RunStatus) -> list[OpenGate]:
    return [
        OpenGate(run=status.id, kind=status.kind, goal=status.goal, gate=gate)
        for gate in status.gates
    ]


async def in_full(found: OpenGates, blobs: BlobStore) -> OpenGates:
    """The same questions, each with its full prompt."""
    told = [
        one.model_copy(update={"gate": await gate_in_full(one.gate, blobs)}) for one in found.gates
    ]
    return found.model_copy(update={"gates": tuple(told)})


async def gate_in_full(gate: Gate, blobs: BlobStore) -> Gate:
    if gate.details is None:
        return gate
    whole = await blobs.get_text(gate.details.hash)
    if gate.kind != "tool_approval":
        return gate.model_copy(update={"prompt": f"{gate.prompt}\n\n{whole}"})
    asked, _, _ = gate.prompt.partition("\n")
    return gate.model_copy(
        update={"prompt": f"{asked}\n{whole}\nhash of the call: {gate.args_hash}"}
    )
