"""Checks of durability: replay histories, and kill the worker of a running run."""

import asyncio
import errno
from pathlib import Path

from perdure.domain.foundation.errors import InvalidInput, NotAllowed, ServiceUnavailable
from perdure.domain.run.result import exit_code
from perdure.interfaces.cli.chaos import compare
from perdure.interfaces.cli.commands.parameters import Given, OneRun
from perdure.interfaces.cli.follow import follow, show_result
from perdure.interfaces.cli.session import LAST, Session
from perdure.interfaces.cli.views.checks import chaos_view, replay_view
from perdure.interfaces.cli.views.layout import WARN
from perdure.interfaces.services import Killed, RuntimeView

OPEN = frozenset({"running", "paused", "waiting"})
BACK_WITHIN_S = 60.0
POLL_S = 0.05


async def replay(*sources: str, session: Given) -> int:
    """Replay histories with this code, and report where it would decide differently.

    Args:
        sources: Run ids, or files with exported histories as JSON.
    """
    if not sources:
        raise InvalidInput("No history was named.", cure="Give run ids, or files with histories.")
    # By name: existing files are read, anything else is taken for a run id.
    histories: dict[str, bytes] = {}
    runs: list[str] = []
    for source in sources:
        exported = _exported(session.context.folder / source)
        if exported is None:
            runs.append(source)
        else:
            histories[source] = exported
    if runs:
        async with session.connected() as services:
            for run in runs:
                resolved = await services.gateway.resolve(run)
                histories[resolved] = await services.gateway.history_export(resolved)
    with session.output.working("replaying"):
        replays = [item async for item in session.context.replay(histories)]
    session.output.show(replay_view(replays), replays)
    return 1 if any(item.problem is not None for item in replays) else 0


def _exported(path: Path) -> bytes | None:
    """The history in a file; None if there is no such file.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise InvalidInput(
            f"The file {path} cannot be read: {error.strerror}.", cure="Make it readable."
        ) from error


async def chaos(run: OneRun = LAST, /, *, session: Given) -> int:
    """Kill the embedded worker under a running run, and show that nothing was lost.

    Args:
        run: A run id, a unique beginning of one, or @last.
    """
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        status = await services.gateway.status(resolved)
        if status.lifecycle not in OPEN:
            raise NotAllowed(
                f"{resolved} is over ({status.lifecycle}), so there is nothing to disturb.",
                cure="Start one with `perdure run --detach`, then `perdure chaos @last`.",
            )
        # Before the kill, or a reply that was lost would not be missed.
        before = await services.journal.rows(resolved)
        killed, seconds = await _kill_and_wait(session)
        ended = await follow(session, services, resolved)
        after = await services.journal.rows(resolved)
        report = compare(
            before, after, run=resolved, killed=killed, back_after_s=seconds, outcome=ended.outcome
        )
        session.output.show(chaos_view(report), report)
        await show_result(session, services, ended)
    return exit_code(ended.outcome) if report.nothing_lost else 1


async def _kill_and_wait(session: Session) -> tuple[Killed, float]:
    """Kill the worker and wait until its supervisor has restarted it."""
    # Counted before the kill: the supervisor may be faster than the first look after it.
    before = _restarts(await session.context.state())
    killed = await session.context.kill_worker()
    session.output.note(f"killed {killed.name} (process {killed.pid})", style=WARN)
    start = session.context.now()
    while True:
        seconds = (session.context.now() - start).total_seconds()
        state = await session.context.state()
        if state is not None and _is_back(state, killed.name, before.get(killed.name, 0)):
            session.output.note(f"{killed.name} is back after {seconds:.1f} s")
            return killed, seconds
        if seconds > BACK_WITHIN_S:
            raise ServiceUnavailable(
                f"{killed.name} is not back after {BACK_WITHIN_S:.0f} s; the run waits for it.",
                cure="Read `perdure logs supervisor`, then `perdure up --detach`.",
            )
        await asyncio.sleep(POLL_S)


def _restarts(state: RuntimeView | None) -> dict[str, int]:
    return {part.name: part.restarts for part in state.parts} if state else {}


def _is_back(state: RuntimeView, name: str, restarts: int) -> bool:
    return any(
        part.name == name and part.status == "running" and part.restarts > restarts
        for part in state.parts
    )
