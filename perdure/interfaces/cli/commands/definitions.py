"""Ready-made tasks and loop definitions: list them, look at one, copy it, check a file."""

import os
from pathlib import Path

from perdure.domain.evaluation.termination_conditions import past_moments
from perdure.domain.foundation.errors import NotAllowed, NotFound, ServiceUnavailable, StoreError
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.roles.definition_library import Library, StoredDefinition, refusal
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.worker_requirements import only_a_worker_knows
from perdure.interfaces.cli.commands.load_task import submit
from perdure.interfaces.cli.commands.parameters import Given, Plugins
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.definitions import (
    broken_lines,
    definitions_view,
    how_to_run,
    how_to_start,
    loop_check,
)
from perdure.interfaces.cli.views.layout import DIM, GOOD, WARN, line, stack
from perdure.interfaces.cli.written_files import as_typed, writing
from perdure.interfaces.definitions import (
    DEFINITIONS,
    LOOPS,
    Definition,
    checked_loop,
    definition,
    example_folder,
    inner_loop_problems,
    is_loop,
    loop_text,
    named_loop_problems,
)
from perdure.interfaces.definitions import definitions as all_definitions
from perdure.submission.loading import store
from perdure.submission.packaged_tasks import PREFIX, definition_names
from perdure.submission.task_file import is_readable, read_file
from perdure.submission.types import Submission

ANOTHER = "Name another folder with --to."


async def definitions(
    name: str | None = None, /, *, to: Path | None = None, session: Given
) -> None:
    """List the ready-made tasks and loops; with a name, show its file and how to run it.

    Args:
        name: One of them.
        to: Copy it into this folder, with its example, to edit and run.
    """
    library = await session.context.loops().library(str(session.context.folder))
    if name is None:
        found, loops = all_definitions(), tuple(library.definitions.values())
        session.output.show(
            definitions_view(found, loops),
            {
                "type": "definitions",
                "tasks": [item.model_dump(mode="json", exclude={"text"}) for item in found],
                "loops": [item.model_dump(mode="json", exclude={"fields"}) for item in loops],
                "broken": [item.model_dump(mode="json") for item in library.broken],
            },
        )
        for row in broken_lines(library.broken):
            session.output.note(row, style=WARN)
    elif (loop := _loop_of(name, library)) is not None:
        _loop(session, loop, to)
    else:
        await _task(session, _known_task(name, library), to)


async def validate(file: Path, /, *, plugin: Plugins = (), session: Given) -> None:
    """Check a task file or a loop definition, and name every problem at once.

    Args:
        file: A task file, or a file such as `loops/NAME.yaml`.
        plugin: A file or module with tools, checks and hooks for the worker; may be repeated.
    """
    session.load_plugins(plugin)
    path = session.context.folder / file
    # Of `os.path` first, which answers too for what is longer than a name may be.
    if not (os.path.exists(path) and is_readable(path)):
        raise NotFound(f"There is no file {file}.", cure='`perdure new "a goal"` writes one.')
    if path.is_file() and is_loop(path):
        fields = read_file(path)
        loop = checked_loop(fields, named=str(file))
        # Where a run would look for the loops that its stages name.
        beside = path.parent.parent if path.parent.name == LOOPS else session.context.folder
        library = await session.context.loops().library(str(beside.absolute()))
        past = past_moments(
            loop.termination_condition, now=session.context.now(), root="termination_condition"
        )
        if wrong := (*past, *inner_loop_problems(loop, fields, library)):
            raise refusal(wrong, what=f"The loop definition {file}")
        view, data = loop_check(loop, file=str(file))
        session.output.show(view, data)
        return
    submission = submit(session, str(file))
    spec = submission.spec
    if isinstance(spec, RolesSpec):
        wrong = named_loop_problems(spec, await session.context.loops().library(spec.workspace))
        if wrong:
            raise refusal(wrong, what=f"The loop of {file}")
    told = [*submission.notes, *await _checked(session, submission)]
    notes = [line(("! ", WARN), note) for note in told]
    session.output.show(
        stack(line(("✓ ", GOOD), f"{file} is a valid task of kind {spec.kind}"), *notes),
        {"type": "valid", "file": str(file), "notes": told, "spec": spec.model_dump(mode="json")},
    )


async def _checked(session: Session, submission: Submission) -> list[str]:
    """Check a file as a start would; return what only a worker can check."""
    try:
        async with session.connected() as services:
            # As a start does: a model that plays a script reads it in the store.
            spec = await services.gateway.check(await store(submission, services.blobs))
    except (ServiceUnavailable, StoreError) as error:
        return [f"models, tools and checks were not looked at: {error.message}"]
    return only_a_worker_knows(spec)


def _loop_of(name: str, library: Library) -> StoredDefinition | None:
    """The loop that a name means; ready-made tasks come first, as in `perdure run`."""
    bare = name.removeprefix(PREFIX)
    if bare in definition_names(DEFINITIONS):
        return None
    return library.definitions.get(bare)


def _loop(session: Session, loop: StoredDefinition, to: Path | None) -> None:
    text = loop_text(loop)
    if to is not None:
        path = session.context.folder / to / f"{loop.name}.yaml"
        with writing(path, cure=ANOTHER):
            _require_absent(path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        told = f"edit it, and its name where it should stand beside {loop.name}"
        view = stack(line(("✓ ", GOOD), f"{path}"), line((told, DIM)))
        session.output.show(view, {"type": "loop", "path": str(path)})
    elif session.output.as_json:
        session.output.emit({"type": "loop", **loop.model_dump(mode="json")})
    else:
        session.output.raw(text)
        for row in how_to_start(loop):
            session.output.note(row, style=DIM)


def _known_task(name: str, library: Library) -> Definition:
    """The task with this name; raises `NotFound` with the nearest name of a task or loop."""
    bare = name.removeprefix(PREFIX)
    tasks = definition_names(DEFINITIONS)
    if bare in tasks:
        return definition(bare)
    hint = did_you_mean(bare, (*tasks, *library.definitions))
    raise NotFound(
        f"There is no task or loop {bare!r}.{hint}",
        cure=f"Tasks: {', '.join(tasks)}. Loops: {', '.join(library.definitions)}.",
    )


async def _task(session: Session, found: Definition, to: Path | None) -> None:
    if to is not None:
        await _copied(session, found, session.context.folder / to)
    elif session.output.as_json:
        session.output.emit({"type": "definition", **found.model_dump(mode="json")})
    else:
        session.output.raw(found.text)
        for row in how_to_run(found):
            session.output.note(row, style=DIM)


async def _copied(session: Session, found: Definition, folder: Path) -> None:
    """Copy the task file, and its example folder next to it."""
    path, beside = folder / f"{found.name}.yaml", folder / found.name
    source = example_folder(found.name)
    with writing(path, cure=ANOTHER):
        # Both first, so that a refusal leaves no half of a copy behind.
        for one in (path, beside):
            _require_absent(one)
        folder.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            await session.context.lay_out(source, beside)
        path.write_text(found.text, encoding="utf-8")
    shown = as_typed(path, session.context.folder)
    view = stack(
        line(("✓ ", GOOD), f"{path}"),
        line((f"edit it, then: perdure run {shown}  (its example: {beside})", DIM)),
    )
    session.output.show(view, {"type": "task", "path": str(path), "example": str(beside)})


def _require_absent(path: Path) -> None:
    if path.exists():
        raise NotAllowed(f"{path} exists already.", cure=ANOTHER)
