"""Experiments: several arms over many inputs, to find out whether looping helps on a task."""

import asyncio
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from perdure.domain.experiments.plan import Plan, digest_of
from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.experiments.store import Place
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import run_id
from perdure.domain.run.audit import Action
from perdure.interfaces.cli.commands.load_task import surroundings
from perdure.interfaces.cli.commands.parameters import Given, Plugins
from perdure.interfaces.cli.follow_experiment import follow_experiment
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.experiments import (
    experiments_view,
    plan_view,
    report_view,
    status_view,
)
from perdure.interfaces.cli.views.layout import GOOD, line
from perdure.interfaces.cli.written_files import write_file
from perdure.interfaces.experiments.bounds import bounded, check_added
from perdure.interfaces.experiments.export import csv_of, json_lines_of, markdown, svg
from perdure.interfaces.experiments.planned import planned
from perdure.interfaces.experiments.reading import read_report
from perdure.interfaces.services import Services
from perdure.submission.experiments import (
    ExperimentSubmission,
    load_experiment,
    more_entries,
    stored_plan,
)

Name = Annotated[str, Parameter(name="ID")]
Form = Literal["table", "markdown", "csv", "jsonl", "svg"]
experiment_app = App(
    name="experiment",
    help="Measure whether a loop helps on your task, at equal spend.",
    version_flags=(),
)


@experiment_app.command
@experiment_app.default
async def run(
    file: Annotated[str, Parameter(name="FILE")],
    /,
    *,
    id: str | None = None,
    detach: bool = False,
    dry_run: bool = False,
    plugin: Plugins = (),
    session: Given,
) -> int:
    """Start an experiment and follow it to its report; Ctrl-C leaves it running.

    Args:
        file: An experiment file: task, inputs, arms (docs/experiments.md).
        id: Its id; the same file under the same id is the same experiment.
        detach: Start it, print its id, and return.
        dry_run: Check the file and show what would run; start nothing.
        plugin: A file or module with checks, tools and hooks for the worker; may be repeated.
    """
    session.load_plugins(plugin)
    # Read before anything starts; which model judges, the workers may know better.
    load_experiment(file, surroundings=replace(surroundings(session), judges=lambda _: True))
    if dry_run:
        return await _show_plan(session, file)
    async with session.connected(start=True) as services:
        # Read again, now with the default model that the workers report.
        submitted = await _submitted(session, services, file)
        _tell(session, submitted)
        kept, entries = await stored_plan(submitted, services.blobs), submitted.entries
        started = id or run_id("experiment", kept.name, uuid.uuid4().hex)
        experiments = services.experiments()
        # Before the bounds, which go by prices: these may change until it is started again.
        sent = digest_of(kept, entries)
        if not await experiments.try_repeat(started, sent=sent):
            plan = await _bounded(session, services, submitted, kept)
            await experiments.start(plan, entries, id=started, sent=sent)
        await _note_decision(session, services, "experiment_started", started)
        if detach:
            told = line(("✓ ", GOOD), f"started {started}")
            session.output.show(told, await experiments.status(started))
            session.output.note(f"Look at it: perdure experiment status {started}")
            return 0
        session.output.note(f"{started} goes on when you press Ctrl-C; stop it with:")
        session.output.note(f"  perdure experiment stop {started}")
        status = await follow_experiment(session, services, started)
        await _report(session, services, started)
        return 1 if status.reason == "failed" else 0


@experiment_app.command(name="list")
async def list_experiments(*, session: Given) -> None:
    """List experiments, the newest first."""
    async with session.connected() as services:
        found = await _all(services)
        data = {
            "type": "experiments",
            "experiments": [one.model_dump(mode="json") for one in found],
        }
        session.output.show(experiments_view(found), data)


async def _all(services: Services) -> list[ExperimentStatus]:
    found: list[ExperimentStatus] = []
    after: Place | None = None
    while page := await services.experiments().list(after=after):
        found += page
        after = Place(page[-1].created_at, page[-1].id)
    return found


@experiment_app.command
async def status(name: Name, /, *, session: Given) -> None:
    """Show how far an experiment is.

    Args:
        name: An experiment's id, a unique beginning of one, or @last.
    """
    async with session.connected() as services:
        await _status(session, services, await services.experiments().resolve(name))


@experiment_app.command
async def report(
    name: Name, /, *, format: Form = "table", to: Path | None = None, session: Given
) -> None:
    """Show what an experiment found so far.

    Args:
        name: An experiment's id, a unique beginning of one, or @last.
        format: How it is written: table, markdown, svg, or a line for each trial: csv, jsonl.
        to: Write it into this file.
    """
    if session.output.as_json and format != "table" and to is None:
        raise InvalidInput(
            f"--format {format} and --json contradict each other.",
            cure="Give one of them, or a file with --to.",
        )
    async with session.connected() as services:
        id = await services.experiments().resolve(name)
        await _report(session, services, id, form=format, to=to)


@experiment_app.command
async def pause(name: Name, /, *, session: Given) -> None:
    """Start no further trial; runs that are open go on.

    Args:
        name: An experiment's id, a unique beginning of one, or @last.
    """
    async with session.connected() as services:
        id = await services.experiments().resolve(name)
        await services.experiments().pause(id)
        await _note_decision(session, services, "experiment_paused", id)
        await _status(session, services, id)


@experiment_app.command
async def resume(
    name: Name, /, *, cost_usd: Decimal | None = None, tokens: int | None = None, session: Given
) -> None:
    """Go on after a pause, a stop or a spent budget; what has ended is not run again.

    With a limit it raises or lowers the budget, also while the experiment runs.

    Args:
        name: An experiment's id, a unique beginning of one, or @last.
        cost_usd: What all its runs may spend together from now on, with what they have spent.
        tokens: The same in tokens.
    """
    if cost_usd is not None and cost_usd <= 0:
        raise InvalidInput(f"--cost-usd {cost_usd} is not above 0.", cure="Give USD, such as 5.")
    if tokens is not None and tokens <= 0:
        raise InvalidInput(f"--tokens {tokens} is not above 0.", cure="Give a number above 0.")
    async with session.connected(start=True) as services:
        id = await services.experiments().resolve(name)
        await services.experiments().resume(id, cost_usd=cost_usd, tokens=tokens)
        await _note_decision(session, services, "experiment_resumed", id)
        await _status(session, services, id)


@experiment_app.command
async def stop(name: Name, /, *, now: bool = False, session: Given) -> None:
    """End an experiment after the runs that are open.

    Args:
        name: An experiment's id, a unique beginning of one, or @last.
        now: Stop these runs too; they are left out of the report.
    """
    async with session.connected() as services:
        id = await services.experiments().resolve(name)
        await services.experiments().stop(id, now=now)
        await _note_decision(session, services, "experiment_stopped", id)
        await _status(session, services, id)


@experiment_app.command
async def extend(
    name: Name, inputs: Annotated[str, Parameter(name="INPUTS")], /, *, session: Given
) -> None:
    """Run further inputs too; an experiment that has ended goes on with them.

    Args:
        name: An experiment's id, a unique beginning of one, or @last.
        inputs: A file or folder with further inputs, of the same form.
    """
    async with session.connected(start=True) as services:
        experiments = services.experiments()
        id = await experiments.resolve(name)
        plan, known = (await experiments.stored(id)).plan, await experiments.entries(id)
        entries = more_entries(inputs, plan, known, surroundings=surroundings(session))
        await check_added(
            plan,
            entries,
            services.models(),
            check=services.gateway.check,
            default_model=await _default_model(session, services),
        )
        # Bound to what was read: if somebody else adds inputs meanwhile, these are refused.
        found = await experiments.extend(id, entries, after=len(known))
        await _note_decision(session, services, "experiment_extended", id)
        session.output.show(status_view(found), found)


@experiment_app.command
async def delete(name: Name, /, *, session: Given) -> None:
    """Forget an experiment that has ended; its runs stay.

    Args:
        name: An experiment's id, a unique beginning of one, or @last.
    """
    async with session.connected() as services:
        id = await services.experiments().resolve(name)
        await services.experiments().delete(id)
        await _note_decision(session, services, "experiment_deleted", id)
        told = line(("✓ ", GOOD), f"forgotten: {id}")
        session.output.show(told, {"type": "experiment_deleted", "id": id})


async def _note_decision(session: Session, services: Services, action: Action, id: str) -> None:
    await session.note_decision(services, action, f"experiment {id}")


async def _submitted(session: Session, services: Services, file: str) -> ExperimentSubmission:
    default = await _default_model(session, services)
    return load_experiment(file, surroundings=replace(surroundings(session), default_model=default))


async def _show_plan(session: Session, file: str) -> int:
    """Show what would run; services that do not run are no failure, as for `run --dry-run`."""
    async with session.connected() as services:
        submitted = await _submitted(session, services, file)
        _tell(session, submitted)
        # Stored as for a start: what is checked names these files by their addresses.
        kept = await stored_plan(submitted, services.blobs)
        plan = await _bounded(session, services, submitted, kept)
    data = {
        "type": "experiment_plan",
        "inputs": len(submitted.entries),
        "plan": plan.model_dump(mode="json", by_alias=True),
    }
    session.output.show(plan_view(planned(plan, submitted.entries, notes=submitted.notes)), data)
    return 0


async def _bounded(
    session: Session, services: Services, submitted: ExperimentSubmission, plan: Plan
) -> Plan:
    return await bounded(
        plan,
        submitted.entries,
        services.models(),
        check=services.gateway.check,
        default_model=await _default_model(session, services),
    )


async def _default_model(session: Session, services: Services) -> str:
    return await services.gateway.default_model() or session.context.default_model


def _tell(session: Session, submitted: ExperimentSubmission) -> None:
    for note in submitted.notes:
        session.output.note(note)


async def _status(session: Session, services: Services, id: str) -> None:
    found = await services.experiments().status(id)
    session.output.show(status_view(found), found)


async def _report(
    session: Session, services: Services, id: str, *, form: Form = "table", to: Path | None = None
) -> None:
    found = await read_report(services.experiments(), id)
    match form:
        case "table" if to is None:
            session.output.show(report_view(found.report), found.report)
            return
        case "csv":
            text = csv_of(found.plan, found.trials, found.entries)
        case "jsonl":
            text = json_lines_of(found.plan, found.trials, found.entries)
        case "svg":
            text = svg(found.report)
        case _:
            text = markdown(found.report)
    if text is None:
        raise InvalidInput(f"{id} has no scores to draw.", cure="Look at it without --format svg.")
    if to is None:
        session.output.raw(text)
        return
    target = session.context.folder / to
    await asyncio.to_thread(write_file, target, text.encode(), option="--to", force=True)
    session.output.note(f"written: {target}")
    if session.output.as_json:
        session.output.emit({"type": "experiment_written", "id": id, "path": str(target)})
