"""Runs that tests steer: a short script, and waits for the moments at which a verb matters."""

from holding import HELD
from installation import Installation
from waiting import eventually

from perdure.domain.run.events import Event
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import EventsQuery
from perdure.domain.run.result import SpendReport
from perdure.domain.run.status import RunStatus

LIST = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}
HELD_LIST = {**LIST, "delay_s": HELD}
DONE = {"text": "All done."}


def spec(**changes: object) -> dict[str, object]:
    """An agent run that looks around."""
    return {"kind": "agent", "goal": "look", "tools": {"access": "readonly"}, **changes}


async def told(site: Installation, run: str) -> RunStatus:
    """The status as the workflow itself tells it."""
    return await site.handle(run).query("status", result_type=RunStatus)


async def spent(site: Installation, run: str) -> SpendReport:
    """The spend as the workflow itself tells it."""
    return await site.handle(run).query("costs", result_type=SpendReport)


async def in_call(site: Installation, run: str) -> None:
    """Wait until a model call is in flight."""

    async def calling() -> bool:
        step = (await site.status(run)).step
        return step is not None and "turn" in step.what

    await eventually(calling)


async def waiting(site: Installation, run: str) -> Gate:
    """Wait for the first open gate."""

    async def asked() -> bool:
        return bool((await site.status(run)).gates)

    await eventually(asked)
    return (await site.status(run)).gates[0]


async def lifecycle(site: Installation, run: str, wanted: str) -> None:
    """Wait until a run is in a state."""

    async def reached() -> bool:
        return (await site.status(run)).lifecycle == wanted

    await eventually(reached)


async def types(site: Installation, run: str) -> list[str]:
    """The types of the events that the workflow still knows."""
    events = await site.handle(run).query("events", EventsQuery(), result_type=list[Event])
    return [event.type for event in events]
