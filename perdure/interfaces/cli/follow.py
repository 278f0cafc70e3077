"""Following a run to its end: a live picture, plain lines, or JSON lines."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from rich.spinner import Spinner
from rich.text import Text

from perdure.domain.foundation.errors import NotFound, StoreError
from perdure.domain.run.events import Event
from perdure.domain.run.result import RunResult, exit_code
from perdure.interfaces.cli.answer_gates import asking_on
from perdure.interfaces.cli.follow_restarts import lasting_events
from perdure.interfaces.cli.learned import find_learned
from perdure.interfaces.cli.picture import Picture
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.event_log import Story
from perdure.interfaces.cli.views.layout import WARN, line
from perdure.interfaces.cli.views.live import live_view
from perdure.interfaces.cli.views.result import result_view
from perdure.interfaces.cli.views.status import moved_on
from perdure.interfaces.run_tree import Below, tree_below
from perdure.interfaces.services import RunGateway, Services

TICK_S = 1.0
LOOK_AGAIN_S = 10.0


async def follow(session: Session, services: Services, run: str) -> RunResult:
    """Tell the run's story as it happens, and return its end."""
    session.following = run
    gateway = services.gateway
    if session.output.as_json:
        async for event in lasting_events(session, gateway, run, on_trouble=session.output.note):
            session.output.emit(event)
    elif session.output.is_terminal:
        await _live(session, services, run)
    else:
        await _lines(session, gateway, run)
    result = await gateway.result(run, wait=True)
    session.following = None
    return result


async def follow_to_end(session: Session, services: Services, run: str) -> int:
    """Follow, show the result, and return the exit code that it means."""
    result = await follow(session, services, run)
    await show_result(session, services, result)
    return exit_code(result.outcome)


async def show_result(session: Session, services: Services, result: RunResult) -> None:
    """The result, as its last JSON line or as a picture."""
    web = services.gateway.web_url(result.id)
    learned = None if session.output.as_json else await find_learned(services, result)
    session.output.show(result_view(result, web_url=web, learned=learned), result)


async def _lines(session: Session, gateway: RunGateway, run: str) -> None:
    story = Story(await gateway.status(run))
    async for event in lasting_events(session, gateway, run, on_trouble=session.output.note):
        told = story.line(event)
        if told is not None:
            session.output.tell(told)


async def _live(session: Session, services: Services, run: str) -> None:
    """The picture below, the story above it; a look at the run only when something happened.

    While a question has the terminal there is no picture, and what happens is told after it.
    """
    spinner, gateway = Spinner("dots"), services.gateway
    status = await gateway.status(run)
    story, looked = Story(status), session.context.now()
    untold: list[Text] = []
    troubles: list[str] = []
    below: tuple[Below, ...] = ()
    draft = ""
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
                    with suppress(StoreError):  # the picture stays while the store is away
                        status = await gateway.status(run)
                        below = await tree_below(gateway, status)
                        if any(event.type == "iteration_completed" for event in events):
                            draft = await _draft(services, run) or draft
                if not asking.open:
                    _tell(picture, untold)
                await asking.look(status)
                moved = moved_on(status, now)
                picture.update(live_view(moved, spinner=spinner, below=below, draft=draft))
        _tell(picture, untold)


async def _draft(services: Services, run: str) -> str:
    """The newest output of a run; empty while there is none, or none that can be read."""
    records = await services.gateway.records(run)
    address = next((one.output_ref for one in reversed(records) if one.output_ref), None)
    if address is None:
        return ""
    with suppress(NotFound):
        return await services.blobs.get_text(address)
    return ""


def _tell(picture: Picture, untold: list[Text]) -> None:
    for told in untold:
        picture.tell(told)
    untold.clear()


async def _batches(events: AsyncIterator[Event]) -> AsyncIterator[list[Event]]:
    """What has come since the last batch; an empty one whenever a second passes without any."""
    queue: asyncio.Queue[Event | None] = asyncio.Queue()
    feeding = asyncio.create_task(_feed(events, queue))
    try:
        is_open = True
        while is_open:
            batch: list[Event] = []
            with suppress(TimeoutError):
                first = await asyncio.wait_for(queue.get(), timeout=TICK_S)
                for item in (first, *_waiting(queue)):
                    if item is None:
                        is_open = False
                    else:
                        batch.append(item)
            yield batch
        await feeding  # hands on what ended it
    finally:
        feeding.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(feeding, return_exceptions=True)


async def _feed(events: AsyncIterator[Event], queue: "asyncio.Queue[Event | None]") -> None:
    try:
        async for event in events:
            queue.put_nowait(event)
    finally:
        queue.put_nowait(None)


def _waiting(queue: "asyncio.Queue[Event | None]") -> list[Event | None]:
    return [queue.get_nowait() for _ in range(queue.qsize())]
