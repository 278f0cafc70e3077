"""Running: start a run and follow it, watch one, or see the plan before paying for it."""

from collections.abc import Sequence
from contextlib import suppress

from perdure.domain.specs import Spec
from perdure.interfaces.cli.commands.load_task import Wishes, find_example, submit, submit_to
from perdure.interfaces.cli.commands.parameters import Given, OneRun, Plugins
from perdure.interfaces.cli.follow import follow_to_end
from perdure.interfaces.cli.session import LAST, Session
from perdure.interfaces.cli.views.layout import DIM, line
from perdure.interfaces.cli.views.plan import plan_view
from perdure.interfaces.look_ahead import look_ahead
from perdure.interfaces.services import Services
from perdure.submission.loading import store
from perdure.submission.types import NobodyJudges


async def run(
    task: str,
    /,
    *,
    wishes: Wishes | None = None,
    example: bool = False,
    detach: bool = False,
    dry_run: bool = False,
    with_worker: bool = False,
    plugin: Plugins = (),
    id: str | None = None,
    session: Given,
) -> int:
    """Start a run and follow it to its end.

    Args:
        task: A task file, the name of a ready-made task, or the goal in words.
        example: Use the task's example: its inputs, and replies from its script.
        detach: Print the id and leave; `perdure watch` follows later.
        dry_run: Start nothing; show the plan, the worst cost and which workers are ready.
        with_worker: Start a worker on this host too, beside a Temporal server that you named.
        plugin: A file or module with tools, checks and hooks for the worker; may be repeated.
        id: The run's id. Default: a readable one is made.
    """
    session.load_plugins(plugin)
    given = await find_example(session, task) if example else None
    # Read here already, so that what is wrong in a file is told before anything is opened.
    with suppress(NobodyJudges):  # the workers may name a judge
        submit(session, task, wishes, example=given)
    async with session.connected(start=False) as services:
        # Checked before anything starts, so that a wrong name does not first wait for services.
        submission = await submit_to(session, services, task, wishes, example=given)
        spec = await store(submission, services.blobs)
        if dry_run:
            return await show_plan(session, services, spec, notes=submission.notes)
        await services.gateway.check(spec)
        services = await session.started(services, with_worker=with_worker)
        for note in submission.notes:
            session.output.note(note)
        gateway, name = services.gateway, submission.name
        # The id uses the file's name: the goals of one ready-made task all begin with the same
        # words.
        named = id or (gateway.fresh_id(spec.kind, name) if name else None)
        started = await gateway.start(spec, run_id=named, by=session.context.user)
        return await follow_started(session, services, started, detach=detach)


async def follow_started(session: Session, services: Services, run: str, *, detach: bool) -> int:
    """Print that a run was started, and follow it unless it is detached."""
    if detach:
        web = services.gateway.web_url(run)
        session.output.show(line(run), {"type": "started", "run": run, "web_url": web})
        session.output.note(f"Watch it: perdure watch {run}", style=DIM)
        session.output.note(f"Watch it and answer it in the browser: perdure open {run}", style=DIM)
        if web:
            session.output.note(f"Web UI: {web}", style=DIM)
        return 0
    if not session.output.is_terminal:
        session.output.note(f"started {run}")
    return await follow_to_end(session, services, run)


async def watch(run: OneRun = LAST, /, *, text: bool = False, session: Given) -> int:
    """Follow a run to its end; Ctrl-C leaves it running.

    Args:
        run: A run id, a unique beginning of one, or @last.
        text: Show what models say while they say it, in this run and in those below it.
    """
    async with session.connected() as services:
        resolved = await services.gateway.resolve(run)
        if text:
            # Imported here, as no other command needs it.
            from perdure.interfaces.cli.follow_text import follow_text

            return await follow_text(session, services, resolved)
        return await follow_to_end(session, services, resolved)


async def show_plan(
    session: Session, services: Services, spec: Spec, *, notes: Sequence[str]
) -> int:
    """Show what a run would do; a missing worker means exit code 3, as at a real start.

    Services that are not running are no failure: a real start would start the embedded ones.
    """
    plan = await look_ahead(
        services, spec, default_model=session.context.default_model, notes=notes
    )
    session.output.show(plan_view(plan), plan)
    return 0 if plan.ready or plan.unknown else 3
