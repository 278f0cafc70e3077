"""Follows a run to its end as a live view, plain lines or JSON lines, across restarts."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress

from rich.spinner import Spinner
from rich.text import Text

from perdure.domain.foundation.errors import NotFound, ServiceUnavailable, StoreError
from perdure.domain.run.events import Event
from perdure.domain.run.result import RunResult, exit_code
from perdure.interfaces.cli.answer_gates import asking_on
from perdure.interfaces.cli.output import Picture
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.events import Story
from perdure.interfaces.cli.views.layout import WARN, line
from perdure.interfaces.cli.views.live import live_view
from perdure.interfaces.cli.views.result import find_learned, result_view
from perdure.interfaces.cli.views.status import moved_on
from perdure.interfaces.cli.waits import questions_told
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.run_tree import Below, tree_below
from perdure.interfaces.services import RuntimeView, Services

# A supervisor that died is restarted after a second, but a busy machine takes longer.
GONE_AFTER_S = 20.0
BACK_WITHIN_S = 300.0
# Where the services run and still nobody answers, following has to end at some point.
TRIES = 3
POLL_S = 0.5


async def lasting_events(
    session: Session, gateway: RunGateway, run: str, *, on_trouble: Callable[[str], None]
) -> AsyncGenerator[Event]:
    """The events of a run to its end, even if the embedded services die meanwhile.

    Raises:
        ServiceUnavailable: the embedded services are gone (the hint says how to start them again),
            or
        the server that the user named does not answer.
    """
    # At the beginning: once services are gone, nothing says whether the run was in ours.
    ours = _serves(await session.context.state())
    since = tries = 0
    while True:
        try:
            async for event in gateway.events(run, since=since, on_trouble=on_trouble):
                # Behind the last event that was told, so that a new connection repeats none.
                since, tries = event.seq, 0
                yield event
            return
        except ServiceUnavailable as error:
            tries += 1
            # A server of others has been waited for already, by the gateway.
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


TICK_S = 1.0
LOOK_AGAIN_S = 10.0


async def follow(session: Session, services: Services, run: str) -> RunResult:
    """Show the run's events as they happen, and return its result."""
    session.following = run
    gateway = services.gateway
    if session.output.as_json:
        async with questions_told(session, gateway, run, own=False):
            async for event in _lasting(session, gateway, run):
                session.output.emit(event)
    elif session.output.is_terminal:
        await _live(session, services, run)
    else:
        await _lines(session, gateway, run)
    # Waited for, as it is stored a moment after the event of the end.
    result = await gateway.result(run, wait=True)
    session.following = None
    return result


async def wait_for_end(session: Session, services: Services, run: str) -> RunResult:
    """Wait for a run's end, and say only what keeps it: questions, and what is out of order."""
    session.following = run
    gateway = services.gateway
    async with questions_told(session, gateway, run, own=True):
        with suppress(NotFound):  # where the server has lost the run, the store has its result
            async for _ in _lasting(session, gateway, run):
                pass
        result = await gateway.result(run, wait=True)
    session.following = None
    return result


def _lasting(session: Session, gateway: RunGateway, run: str) -> AsyncGenerator[Event]:
    return lasting_events(session, gateway, run, on_trouble=session.output.warn)


async def follow_to_end(session: Session, services: Services, run: str) -> int:
    """Follow the run, show its result, and return the exit code."""
    result = await follow(session, services, run)
    await show_result(session, services, result)
    return exit_code(result.outcome)


async def show_result(session: Session, services: Services, result: RunResult) -> None:
    """Show the result, as a last JSON line or as a view."""
    web = services.gateway.web_url(result.id)
    learned = None if session.output.as_json else await find_learned(services, result)
    session.output.show(result_view(result, web_url=web, learned=learned), result)


async def _lines(session: Session, gateway: RunGateway, run: str) -> None:
    story = Story(await gateway.status(run))
    async with questions_told(session, gateway, run, own=False):
        async for event in _lasting(session, gateway, run):
            told = story.line(event)
            if told is not None:
                session.output.tell(told)


async def _live(session: Session, services: Services, run: str) -> None:
    """The live view with the story above it; the run is queried after events, or every few seconds.

    While a question holds the terminal, the view is hidden and events are shown after it.
    """
    spinner, gateway = Spinner("dots"), services.gateway
    status = await gateway.status(run)
    story, looked = Story(status), session.context.now()
    untold: list[Text] = []
    troubles: list[str] = []
    below: tuple[Below, ...] = ()
    draft = ""
    # Troubles are told above the picture later: a line on standard error would tear it.
    told_of = lasting_events(session, gateway, run, on_trouble=troubles.append)
    with session.output.live(live_view(moved_on(status, looked), spinner=spinner)) as picture:
        async with asking_on(session, services, picture) as asking:
            async for events in _batches(told_of):
                news = bool(events or troubles)
                untold += [line((text, WARN)) for text in troubles]
                troubles.clear()
                untold += [told for event in events if (told := story.line(event)) is not None]
                now = session.context.now()
                if news or (now - looked).total_seconds() >= LOOK_AGAIN_S:
                    looked = now
                    with suppress(StoreError):  # keep the old view while the store is unavailable
                        status = await gateway.status(run)
                        below = await tree_below(gateway, status)
                        if any(event.type == "iteration_completed" for event in events):
                            # One without an output leaves the draft before it in sight.
                            draft = await _draft(services, run) or draft
                # A line printed now would end up in the middle of what a person is typing.
                if not asking.open:
                    _tell(picture, untold)
                await asking.look(status)
                moved = moved_on(status, now)
                picture.update(live_view(moved, spinner=spinner, below=below, draft=draft))
        # What was held back while a question had the terminal.
        _tell(picture, untold)


async def _draft(services: Services, run: str) -> str:
    """The newest output of a run; empty if there is none or it cannot be read."""
    records = await services.gateway.records(run)
    address = next((one.output_ref for one in reversed(records) if one.output_ref), None)
    if address is None:
        return ""
    # The run may have been erased, or its draft collected, since the record was read.
    with suppress(NotFound):
        return await services.blobs.get_text(address)
    return ""


def _tell(picture: Picture, untold: list[Text]) -> None:
    for told in untold:
        picture.tell(told)
    untold.clear()


async def _batches(events: AsyncIterator[Event]) -> AsyncIterator[list[Event]]:
    """The events since the last batch; an empty batch for every second without events."""
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    feeding = asyncio.create_task(_feed(events, queue))
    try:
        is_open = True
        while is_open:
            batch: list[Event] = []
            with suppress(TimeoutError):
                first = await asyncio.wait_for(queue.get(), timeout=TICK_S)
                # All that is there in one batch, since each batch costs a query of the run.
                for item in (first, *(queue.get_nowait() for _ in range(queue.qsize()))):
                    if item is None:
                        is_open = False
                    else:
                        batch.append(item)
            yield batch
        await feeding  # raises what ended the feed, if it failed
    finally:
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(feeding, return_exceptions=True)


async def _feed(events: AsyncIterator[Event], queue: "asyncio.Queue[Event | None]") -> None:
    try:
        async for event in events:
            queue.put_nowait(event)
    finally:
        # Also after an error, which nobody would hear of while the queue is waited for.
        queue.put_nowait(None)
