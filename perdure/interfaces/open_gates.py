"""Questions that wait for a person, of one run or of all, shortened or in full."""

from perdure.domain.gates import Gate
from perdure.domain.ports import BlobStore
from perdure.interfaces.gateway.facts import OpenGate, OpenGates
from perdure.interfaces.services import RunGateway


async def open_gates(gateway: RunGateway, run: str | None = None) -> OpenGates:
    """What waits, oldest first; of one run where it is named, by its id or a beginning of it."""
    if run is None:
        return await gateway.gates()
    status = await gateway.status(await gateway.resolve(run))
    return OpenGates(
        gates=tuple(
            OpenGate(run=status.id, kind=status.kind, goal=status.goal, gate=gate)
            for gate in status.gates
        )
    )


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
