"""Schedules: a task that starts by the clock, within a budget of each month."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from pydantic import JsonValue
from rich.console import RenderableType

from perdure.domain.schedules.plan import Overlap
from perdure.domain.schedules.status import ScheduleStatus, Triggered
from perdure.interfaces.cli.commands.load_task import Wishes, submit, submit_to
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.commands.patterns import interval_of
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import BAD, GOOD, WARN, heading, line, pairs, stack, table
from perdure.interfaces.formatting import duration, one_line
from perdure.interfaces.schedule_words import (
    OVERLAP_WORDS,
    budget_words,
    local,
    month_words,
    state_words,
    times_words,
    trouble,
)
from perdure.submission.loading import store
from perdure.submission.schedules import file_digest, schedule_plan
from perdure.submission.types import NobodyJudges

Name = Annotated[str, Parameter(name="NAME")]
schedule_app = App(
    name="schedule",
    help="Start tasks by the clock, within a budget of each month.",
    version_flags=(),
)

EMPTY = (
    "Nothing is scheduled. Start a task by the clock: "
    'perdure schedule create NAME TASK --cron "0 9 * * MON-FRI"'
)
SHOWN_NEXT, SHOWN_STARTS = 3, 10


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """When a task starts, and what its runs may cost.

    Args:
        cron: When, as five fields: minute, hour, day, month, weekday ("0 9 * * MON-FRI"); may be
            repeated.
        every: How often, instead of --cron: 30m, 6h, 7d, counted from 1970 in UTC.
        offset: With --every, how much later: --every 24h --offset 6h is at 06:00 UTC.
        jitter: Start up to so much later, each time another.
        time_zone: Of --cron and of the months of the budget, such as Europe/Berlin.
        overlap: What becomes of a start while the run before is open.
        catch_up: How late a start is made up for after the server was away. Default: 1h.
        month_usd: What all its runs may spend in a calendar month, in USD.
        month_tokens: The same in tokens.
    """

    cron: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    every: str | None = None
    offset: str | None = None
    jitter: str | None = None
    time_zone: str = "UTC"
    overlap: Overlap = "skip"
    catch_up: str | None = None
    month_usd: Decimal | None = None
    month_tokens: int | None = None

    def options(self) -> dict[str, JsonValue]:
        """The options as fields of a plan."""

        def seconds(text: str | None, option: str) -> float:
            return 0.0 if text is None else interval_of(text, option).total_seconds()

        return {
            "times": {
                "cron": [*self.cron],
                "every_s": None if self.every is None else seconds(self.every, "--every"),
                "offset_s": seconds(self.offset, "--offset"),
                "jitter_s": seconds(self.jitter, "--jitter"),
                "time_zone": self.time_zone,
            },
            "overlap": self.overlap,
            "catch_up_s": seconds(self.catch_up or "1h", "--catch-up"),
            "month": {
                # As text, since a number of JSON would be a float before it is a decimal again.
                "cost_usd": None if self.month_usd is None else str(self.month_usd),
                "tokens": self.month_tokens,
            },
        }


@schedule_app.command
async def create(
    name: Name,
    task: Annotated[str, Parameter(name="TASK")],
    /,
    *,
    clock: Clock | None = None,
    paused: bool = False,
    replace: bool = False,
    wishes: Wishes | None = None,
    session: Given,
) -> None:
    """Start a task by the clock from now on.

    The schedule keeps a copy of the task: after changes to the file, create it again with
    --replace.

    Args:
        name: Names the schedule, and begins the ids of its runs: small letters, digits and dashes.
        task: A task file, the name of a ready-made task, or the goal in words.
        paused: Start nothing until `perdure schedule resume`.
        replace: Change the schedule of this name, if there is one; what it spent still counts.
    """
    # Absolute, as `show` compares the file later, from whatever folder it is called.
    path = (session.context.folder / task).absolute()
    digest = file_digest(path)
    options: dict[str, JsonValue] = {
        "name": name,
        **(clock or Clock()).options(),
        "source": str(path) if digest else task[:200],
        "source_digest": digest,
    }
    # Read before anything starts; the workers may name a judge where this host has none.
    with suppress(NobodyJudges):
        schedule_plan(submit(session, task, wishes).spec, options)
    async with session.connected(start=True) as services:
        submission = await submit_to(session, services, task, wishes)
        spec = await store(submission, services.blobs)
        plan = schedule_plan(spec, options)
        for note in submission.notes:
            session.output.note(note)
        known = await services.schedules().create(plan, paused=paused, replace=replace)
        action = "schedule_changed" if replace else "schedule_created"
        await session.note_decision(services, action, f"schedule {name}")
        _show(session, known)


@schedule_app.default
@schedule_app.command(name="list")
async def list_schedules(*, session: Given) -> None:
    """List schedules with their next start and what their month has cost."""
    async with session.connected() as services:
        found = await services.schedules().list()
        data = {"type": "schedules", "schedules": [one.model_dump(mode="json") for one in found]}
        session.output.show(schedules_view(found), data)
        for broken in await services.schedules().unreadable():
            session.output.note(broken.why)


@schedule_app.command
async def show(name: Name, /, *, session: Given) -> None:
    """Show a schedule: when it starts next, what its month has cost, what came of its last starts.

    Args:
        name: A schedule.
    """
    async with session.connected() as services:
        _show(session, await services.schedules().status(name))


@schedule_app.command
async def pause(name: Name, /, *, note: str = "", session: Given) -> None:
    """Start nothing until it is resumed; open runs go on.

    Args:
        name: A schedule.
        note: Why, for whoever looks at it.
    """
    async with session.connected() as services:
        found = await services.schedules().pause(name, note=note)
        await session.note_decision(services, "schedule_paused", f"schedule {name}")
        _show(session, found)


@schedule_app.command
async def resume(name: Name, /, *, note: str = "", session: Given) -> None:
    """Start its task by the clock again; what it missed is not made up for.

    Args:
        name: A schedule.
        note: Why, for whoever looks at it.
    """
    async with session.connected(start=True) as services:
        found = await services.schedules().resume(name, note=note)
        await session.note_decision(services, "schedule_resumed", f"schedule {name}")
        _show(session, found)


@schedule_app.command
async def trigger(name: Name, /, *, session: Given) -> int:
    """Start its task once, now, also while it is paused.

    Args:
        name: A schedule.
    """
    async with session.connected(start=True) as services:
        found = await services.schedules().trigger(name)
        await session.note_decision(
            services, "schedule_triggered", f"schedule {name}", run=found.run
        )
        session.output.show(triggered_view(found), found)
        if found.run is not None:
            session.output.note(f"Watch it: perdure watch {found.run}")
        return 0 if found.run is not None else 1


@schedule_app.command
async def delete(name: Name, /, *, session: Given) -> None:
    """End a schedule; its runs stay, and those that are open go on.

    Args:
        name: A schedule.
    """
    async with session.connected() as services:
        await services.schedules().delete(name)
        await session.note_decision(services, "schedule_deleted", f"schedule {name}")
        told = line(("✓ ", GOOD), f"ended: {name}")
        session.output.show(told, {"type": "schedule_deleted", "name": name})


def _show(session: Session, found: ScheduleStatus) -> None:
    session.output.show(schedule_view(found, file_words=_file_words(found)), found)


def _file_words(found: ScheduleStatus) -> str:
    """Whether the task file still matches the schedule, which keeps its own copy."""
    plan = found.plan
    if not plan.source_digest:
        return ""
    now = file_digest(Path(plan.source))
    if now == plan.source_digest:
        return ""
    what = (
        "has changed since; the schedule goes on with its copy"
        if now
        else ("is not on this machine; the schedule has a copy")
    )
    return f"the file {what}"


def schedules_view(found: Sequence[ScheduleStatus]) -> RenderableType:
    if not found:
        return line(EMPTY)
    rows = [
        (
            one.plan.name,
            state_words(one),
            times_words(one.plan.times),
            local(one.next_at[0], one.plan.times) if one.next_at else "-",
            month_words(one),
            trouble(one) if one.state != "missing" else "",
        )
        for one in found
    ]
    return table(("name", "state", "when", "next", "this month", ""), rows, whole=("name",))


def schedule_view(status: ScheduleStatus, *, file_words: str = "") -> RenderableType:
    """One schedule with its next and last starts."""
    plan = status.plan
    starts = [
        (local(one.at, plan.times), one.run, one.refused or "")
        for one in status.starts[:SHOWN_STARTS]
    ]
    return stack(
        pairs([
            ("name", plan.name),
            ("state", state_words(status)),
            ("goal", one_line(plan.goal)),
            ("task", plan.source),
            ("", file_words),
            ("when", times_words(plan.times)),
            ("next", "\n".join(local(one, plan.times) for one in status.next_at[:SHOWN_NEXT])),
            ("overlap", OVERLAP_WORDS[plan.overlap]),
            ("catch-up", f"starts up to {duration(plan.catch_up_s)} late are made up for"),
            ("budget", budget_words(plan)),
            ("this month", month_words(status)),
            ("open", ", ".join(status.running)),
            ("starts", f"{status.started}, {status.skipped} skipped" if status.started else ""),
        ]),
        line((f"! {trouble(status)}", WARN)) if trouble(status) else None,
        heading("Last starts") if starts else None,
        table(("when", "run", "refused"), starts, whole=("run",)) if starts else None,
    )  # fmt: skip


def triggered_view(found: Triggered) -> RenderableType:
    """The run of a manual start, or why there is none."""
    if found.run is not None:
        return line(("✓ ", GOOD), f"started {found.run}")
    return line(("✗ ", BAD), f"{found.schedule}: {found.why}")
