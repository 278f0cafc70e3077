"""Looking at a role loop at work: its stage, its question, what its model was told."""

from installation import Installation
from waiting import eventually

from perdure.domain.run.gates import Gate


async def reached(site: Installation, run: str, *, iteration: int) -> bool:
    """Whether a run is that far."""
    return (await site.status(run)).iteration >= iteration


async def at_stage(site: Installation, run: str, name: str) -> bool:
    """Whether a stage of that name is in progress, or the next one."""
    status = await site.status(run)
    return status.stage is not None and status.stage.name == name


async def open_gate(site: Installation, run: str, *, after: str = "") -> Gate:
    """The newest open question of a run, once there is one other than `after`."""
    found: list[Gate] = []

    async def waits() -> bool:
        found[:] = [gate for gate in (await site.status(run)).gates if gate.id != after]
        return bool(found)

    await eventually(waits)
    return found[-1]


async def told(site: Installation, transcript: str | None) -> str:
    """All texts of a conversation."""
    assert transcript is not None
    messages = await site.parts.stores.transcripts.load(transcript)
    return "\n\n".join(message.text for message in messages)
