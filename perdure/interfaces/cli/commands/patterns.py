"""Patterns: what runs are asked again and again, proposed to a person as a skill."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.memory.entries import PatternState
from perdure.interfaces import patterns as deciding
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.views.layout import GOOD, line, stack
from perdure.interfaces.cli.views.memory import mined_view, patterns_view, schedule_view
from perdure.interfaces.skill_files import read_skill
from perdure.interfaces.unreadable_memory import unreadable_note

Entry = Annotated[str, Parameter(name="ID")]
_EVERY = re.compile(r"(?P<count>\d+)\s*(?P<unit>[smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
patterns_app = App(
    name="patterns",
    help="Manage patterns, habits found in earlier runs that can become skills.",
    version_flags=(),
)


@patterns_app.default
@patterns_app.command(name="list")
async def list_patterns(*, state: PatternState | None = None, session: Given) -> None:
    """List patterns, the most certain first.

    Args:
        state: Only patterns in this state.
    """
    async with session.connected() as services:
        found = await deciding.patterns(services.memory, state=state)
        data = {"type": "patterns", "patterns": [item.model_dump(mode="json") for item in found]}
        session.output.show(patterns_view(found), data)
        if note := await unreadable_note(services.memory):
            session.output.note(note)


@patterns_app.command
async def approve(
    entry: Entry, /, *, name: str | None = None, file: Path | None = None, session: Given
) -> None:
    """Turn a pattern into a skill, from its accepted runs or from your own text.

    Args:
        entry: A pattern's id, or a unique beginning of one.
        name: The skill's name. Default: a name made from the pattern.
        file: A Markdown file with the skill, instead of what worked.
    """
    now = session.context.now()
    written = read_skill(session.context.folder / file, now=now) if file is not None else None
    async with session.connected() as services:
        done = await deciding.approve(
            services.memory, entry, by=session.context.user, now=now, name=name, written=written
        )
        await session.note_decision(services, "library_approved", f"pattern {done.pattern.id}")
        told = line(("✓ ", GOOD), f"{done.pattern.id} is now the skill {done.skill.name}")
        session.output.show(told, done)
        session.output.note(f"Read it: perdure skills show {done.skill.name}")


@patterns_app.command
async def reject(entry: Entry, /, *, session: Given) -> None:
    """Never propose a pattern again.

    Args:
        entry: A pattern's id, or a unique beginning of one.
    """
    async with session.connected() as services:
        rejected = await deciding.reject(services.memory, entry)
        await session.note_decision(services, "library_rejected", f"pattern {rejected.id}")
        session.output.show(line(("✓ ", GOOD), f"rejected {rejected.id}"), rejected)


@patterns_app.command
async def schedule(
    *, every: str | None = None, off: bool = False, now: bool = False, session: Given
) -> None:
    """Show or change the schedule of pattern mining.

    Args:
        every: Mine this often, such as 24h, 30m or 7d.
        off: Stop mining.
        now: Mine once, now.
    """
    if every is not None and off:
        raise InvalidInput("--every and --off exclude each other.", cure="Give one of them.")
    interval = None if every is None else interval_of(every)
    clock = session.context.now()
    async with session.connected(start=interval is not None or now) as services:
        mining = services.gateway.upkeep("mining")
        if off and not await mining.delete_schedule():
            session.output.note("Nothing was scheduled.")
        if interval is not None:
            await mining.schedule_every(interval)
        report = await services.gateway.mine() if now else None
        looked = None if report is None else mined_view(report)
        mined = {} if report is None else {"type": "mined", **report.model_dump()}
        if looked is not None and every is None and not off:
            session.output.show(looked, mined)
            return
        stands = await mining.state()
        facts = None if stands is None else stands.model_dump(mode="json")
        # One document for one command, as programs read it.
        data = {"type": "schedule", "schedule": facts, **({"mined": mined} if mined else {})}
        session.output.show(stack(looked, schedule_view(stands, clock)), data)


def interval_of(text: str, option: str = "--every") -> timedelta:
    """Read a number of seconds, minutes, hours or days; raises `InvalidInput` for anything else."""
    read = _EVERY.fullmatch(text.strip().lower())
    # `timedelta` takes no more days than that.
    if read is None or len(read["count"]) > len("999999999"):
        raise InvalidInput(
            f"{option}: {text[:40]!r} is not an interval.",
            cure="Give a number and s, m, h or d: 24h.",
        )
    return timedelta(seconds=int(read["count"]) * _UNITS[read["unit"]])
