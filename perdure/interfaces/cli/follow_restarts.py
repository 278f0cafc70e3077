"""A run that is followed while its services die: they come back, or a restart is offered."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.run.events import Event
from perdure.interfaces.cli.session import Session
from perdure.interfaces.services import RunGateway, RuntimeView

# A supervisor that died is started again after a second; on a busy machine that takes a while.
GONE_AFTER_S = 20.0
BACK_WITHIN_S = 300.0
TRIES = 3
POLL_S = 0.5


async def lasting_events(
    session: Session, gateway: RunGateway, run: str, *, on_trouble: Callable[[str], None]
) -> AsyncGenerator[Event]:
    """The events of a run to its end, also over a death of the embedded services.

    Raises:
        ServiceUnavailable: the services are gone, with the command that starts them again; or the
            server that the user named does not answer.
    """
    ours = _serves(await session.context.state())
    since = tries = 0
    while True:
        try:
            async for event in gateway.events(run, since=since, on_trouble=on_trouble):
                since, tries = event.seq, 0
                yield event
            return
        except ServiceUnavailable as error:
            tries += 1
            if not ours or tries >= TRIES:
                raise
            await _until_back(session, run, error, on_trouble)


async def _until_back(
    session: Session, run: str, error: ServiceUnavailable, tell: Callable[[str], None]
) -> None:
    clock = asyncio.get_running_loop().time
    lost, seen = clock(), False
    while not _serves(state := await session.context.state()):
        if state is not None and not seen:
            seen = True
            tell("the services stopped and are being started again; the run waits for them")
        if clock() - lost > (BACK_WITHIN_S if state is not None else GONE_AFTER_S):
            raise ServiceUnavailable(
                f"The services of {session.context.home} are gone. The run is kept, and goes on "
                f"where it stood once they are back. {error.message}",
                cure=f"Start them with `perdure up --detach`, then `perdure watch {run}`.",
            ) from error
        await asyncio.sleep(POLL_S)


def _serves(state: RuntimeView | None) -> bool:
    parts = () if state is None else state.parts
    return any(part.name == "temporal" and part.status == "running" for part in parts)
