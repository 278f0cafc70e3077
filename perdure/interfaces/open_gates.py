"""Questions that wait for a person, of one run, its tree, or all; shortened or in full."""

from perdure.domain.foundation.errors import PerdureError
from perdure.domain.ports import BlobStore
from perdure.domain.run.child_questions import meant
from perdure.domain.run.gates import Gate, read_name
from perdure.domain.run.status import RunStatus
from perdure.gateway.types import OpenGate, OpenGates
from perdure.interfaces.services import RunGateway


async def open_gates(gateway: RunGateway, run: str | None = None) -> OpenGates:
    """What waits, oldest first; of one run where it is named, by its id or a beginning of it."""
    if run is None:
        return await gateway.gates()
    return await gates_of_tree(gateway, await gateway.status(await gateway.resolve(run)))


async def gates_of_tree(gateway: RunGateway, status: RunStatus) -> OpenGates:
    """What a run and those below it ask; one that does not answer is named, and hides no other."""
    found, unread = _own(status), list[str]()
    for run in dict.fromkeys(question.run for question in status.questions):
        try:
            found += _own(await gateway.status(run))
        except PerdureError:
            unread.append(run)
    oldest_first = sorted(found, key=lambda item: item.gate.opened_at)
    return OpenGates(gates=tuple(oldest_first), unread=tuple(unread))


async def asked_here(gateway: RunGateway, status: RunStatus, named: str) -> list[OpenGate]:
    """The open gates that a name means in a run, or else in the runs below it."""
    own = [item for item in _own(status) if item.gate.id == read_name(named.rpartition(":")[2]).id]
    if own:
        return own
    found: list[OpenGate] = []
    for question in meant(status.questions, named):
        asking = _own(await gateway.status(question.run))
        found += [item for item in asking if item.gate.id == read_name(question.gate).id]
    return found


def _own(status: RunStatus) -> list[OpenGate]:
    return [
        OpenGate(run=status.id, kind=status.kind, goal=status.goal, gate=gate)
        for gate in status.gates
    ]


async def in_full(found: OpenGates, blobs: BlobStore) -> OpenGates:
    """The same questions, each with all of what it is about in its prompt."""
    told = [
        one.model_copy(update={"gate": await gate_in_full(one.gate, blobs)}) for one in found.gates
    ]
    return found.model_copy(update={"gates": tuple(told)})


async def gate_in_full(gate: Gate, blobs: BlobStore) -> Gate:
    """A gate whose prompt holds all of what it asks about."""
    if gate.details is None:
        return gate
    asked, _, _ = gate.prompt.partition("\n")
    whole = await blobs.get_text(gate.details.hash)
    return gate.model_copy(
        update={"prompt": f"{asked}\n{whole}\nhash of the call: {gate.args_hash}"}
    )
