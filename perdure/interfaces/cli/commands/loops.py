"""Loops of roles: list them, start one, look at it, steer it."""

from typing import Annotated

from cyclopts import App, Parameter
from pydantic import JsonValue

from perdure.domain.evaluation.outcomes import Lifecycle
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.loop_api import LoopAction, LoopAsk
from perdure.interfaces.cli.commands import inspect
from perdure.interfaces.cli.commands.load_task import surroundings
from perdure.interfaces.cli.commands.parameters import Given, Limits, OneRun, limits_of
from perdure.interfaces.cli.commands.run import follow_started, show_plan
from perdure.interfaces.cli.session import ALL, LAST, Session
from perdure.interfaces.cli.views.loops import controlled_view, loop_definitions_view, loops_view
from perdure.interfaces.loop_service import NO_FLAGS, LoopService
from perdure.interfaces.services import Services
from perdure.strict_yaml import parse
from perdure.submission.loading import store
from perdure.submission.types import Flags

Targets = Annotated[str, Parameter(name="ID|all")]
Param = Annotated[tuple[str, ...], Parameter(name="--param", negative="")]
Settings = Annotated[tuple[str, ...], Parameter(name="--set", negative="")]
Workspace = Annotated[str | None, Parameter(name="--workspace")]
loops_app = App(name="loops", help="Start, inspect and steer loops of roles.", version_flags=())


def loops_over(
    session: Session,
    services: Services,
    *,
    by: str | None = None,
    flags: Flags = NO_FLAGS,
    workspace: str | None = None,
) -> LoopService:
    """Control over the loops of an installation, by default in the name of the current user."""
    return LoopService(
        gateway=services.gateway,
        definitions_kept=services.definitions(),
        records=services.records,
        blobs=services.blobs,
        journal=services.journal,
        surroundings=surroundings(session),
        by=session.context.user if by is None else by,
        workspace=workspace,
        flags=flags,
    )


@loops_app.default
@loops_app.command(name="list")
async def list_loops(*, status: Lifecycle | None = None, session: Given) -> None:
    """List runs of loops, newest first.

    Args:
        status: Only runs in this state.
    """
    async with session.connected() as services:
        found = await loops_over(session, services).rows(status)
    session.output.show(loops_view(found, session.context.now()), found)


@loops_app.command
async def definitions(*, session: Given) -> None:
    """List the loops that you can start, with stages, end conditions and parameters."""
    here = str(session.context.folder)
    async with session.connected() as services:
        found = await loops_over(session, services, workspace=here).definitions()
    session.output.show(loop_definitions_view(found), list(found))


@loops_app.command
async def start(
    definition: Annotated[str, Parameter(name="DEFINITION")],
    goal: str,
    /,
    *,
    param: Param = (),
    max_iterations: int | None = None,
    workspace: Workspace = None,
    budget: Limits = (),
    model: str | None = None,
    set_: Settings = (),
    detach: bool = False,
    dry_run: bool = False,
    session: Given,
) -> int:
    """Start a loop and follow it to its end.

    Args:
        definition: Name of the loop, from `perdure loops definitions`.
        goal: What to do.
        param: A parameter of the definition as name=value; may be repeated.
        max_iterations: Most iterations, instead of the definition's limit.
        workspace: The folder it works on, in a copy. Default: this folder if it is a repository or
            the definition is in its `loops`, else an empty one.
        budget: The most that may be spent: USD, or a limit as name=value (tokens=50000);
            may be repeated.
        model: The model that does the work.
        set_: Any other field as path=value, such as budget.tokens=50000; may be repeated.
        detach: Print the id and leave; `perdure watch` follows later.
        dry_run: Start nothing; show the stages, the worst cost and which workers are ready.
    """
    ask = LoopAsk(
        definition=definition,
        goal=goal,
        parameters=dict(_parameter(item) for item in param),
        max_iterations=max_iterations,
    )
    folder = await _workspace(session, workspace, definition)
    flags = Flags(budget=limits_of(budget), model=model, sets=set_)
    async with session.connected(start=not dry_run) as services:
        loops = loops_over(session, services, flags=flags, workspace=folder)
        if dry_run:
            submission = loops.submission(ask)
            spec = await store(submission, services.blobs)
            return await show_plan(session, services, spec, notes=submission.notes)
        started = await loops.start(ask)
        for note in started.notes:
            session.output.note(note)
        return await follow_started(session, services, started.id, detach=detach)


@loops_app.command
async def status(run: OneRun = LAST, /, *, session: Given) -> None:
    """Show the state of a loop.

    Args:
        run: A run id, a unique beginning of one, or @last.
    """
    await inspect.status(run, session=session)


@loops_app.command
async def pause(run: Targets, /, *, session: Given) -> int:
    """Start no new stage; the stage in flight finishes.

    Args:
        run: A run id, a unique beginning of one, @last, or `all`.
    """
    return await _control(session, "pause", run)


@loops_app.command
async def resume(run: Targets, /, *, session: Given) -> int:
    """Continue a paused loop.

    Args:
        run: A run id, a unique beginning of one, @last, or `all`.
    """
    return await _control(session, "resume", run)


@loops_app.command
async def stop(run: Targets, /, *, session: Given) -> int:
    """End a loop with its best result.

    Args:
        run: A run id, a unique beginning of one, @last, or `all`.
    """
    return await _control(session, "stop", run)


@loops_app.command
async def retry(
    run: Annotated[str, Parameter(name="ID")], /, *, note: str = "", session: Given
) -> int:
    """Continue a run that failed or ended blocked; use `answer` for open questions.

    Args:
        run: A run id, a unique beginning of one, or @last.
        note: Guidance for the next prompt.
    """
    return await _control(session, "retry", run, note=note)


async def _control(session: Session, action: LoopAction, run: str, *, note: str = "") -> int:
    async with session.connected() as services:
        done = await loops_over(session, services).control(action, run, note=note)
    session.output.show(controlled_view(done), done)
    # A loop that ended meanwhile refuses too, so only a refusal by all is a failure.
    return 5 if run == ALL and done.refused and not done.taken else 0


def _parameter(item: str) -> tuple[str, JsonValue]:
    name, separator, value = item.partition("=")
    if not separator or not name.strip():
        raise InvalidInput(
            f"--param {item}: found no name=value.", cure="Write it as --param topic=rust."
        )
    try:
        # As in a task file, where `3` is a number and `[a, b]` a list.
        parsed = parse(value, named=item)
    except InvalidInput:
        parsed = value
    plain = isinstance(parsed, bool | int | float | str | list | dict)
    return name.strip(), parsed if plain and value.strip() else value


async def _workspace(session: Session, given: str | None, definition: str) -> str | None:
    here = session.context.folder
    if given is not None:
        return str((here / given).absolute())
    # Exists, as in a worktree `.git` is a file.
    if (here / ".git").exists():
        return str(here)
    found = (await session.context.loops().library(str(here))).definitions.get(definition)
    return str(here) if found is not None and found.origin == "workspace" else None
