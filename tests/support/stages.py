"""Looking at a role loop at work: its stage, its question, what its model was told."""

from installation import Installation
from waiting import eventually

from perdure.domain.gates import Gate


async def reached(site: Installation, run: str, *, iteration: int) -> bool:
    return (await site.status(run)).iteration >= iteration


async def at_stage(site: Installation, run: str, name: str) -> bool:
    status = await site.status(run)
    return status.stage is not None and status.stage.name == name


async def another_gate(site: Installation, run: str, before: str) -> bool:
    return any(gate.id != before for gate in (await site.status(run)).gates)


async def open_gate(site: Installation, run: str) -> Gate:
    async def waits() -> bool:
        return bool((await site.status(run)).gates)

    await eventually(waits)
    return (await site.status(run)).gates[-1]


async def told(site: Installation, transcript: str | None) -> str:
    assert transcript is not None
    messages = await site.parts.stores.transcripts.load(transcript)
    return "\n\n".join(message.text for message in messages)
