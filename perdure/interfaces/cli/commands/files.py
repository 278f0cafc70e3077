"""Task files: write one from a goal, check one, see the shipped ones and the schemas."""

import re
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from perdure.domain.errors import InvalidInput, NotAllowed, NotFound
from perdure.interfaces.cli.commands.given import Given
from perdure.interfaces.cli.commands.submitting import draft_task, submit
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.definitions import definitions_view, how_to_run
from perdure.interfaces.cli.views.layout import DIM, GOOD, WARN, line, stack
from perdure.interfaces.definitions import DEFINITIONS, Definition, definition, example_folder
from perdure.interfaces.definitions import definitions as all_definitions
from perdure.interfaces.schemas import schema_of, schemas, stale_schemas, text_of, write_schemas
from perdure.interfaces.submission.defined import PREFIX, definition_file

NAME_WORDS = 5


async def new(goal: str, /, *, to: Path | None = None, force: bool = False, session: Given) -> None:
    """Write a task file with checks derived from the goal, to edit and run.

    Args:
        goal: What is to be done, in words.
        to: The file to write; left out: named after the goal, in this folder.
        force: Write over a file that is there.
    """
    path = session.context.folder / (to or f"{_name_of(goal)}.yaml")
    if path.exists() and not force:
        raise NotAllowed(f"{path} exists already.", cure="Name another with --to, or use --force.")
    text = draft_task(goal, path=path)
    path.write_text(text, encoding="utf-8")
    names = [item["name"] for item in yaml.safe_load(text)["rubric"]]
    view = stack(
        line(("✓ ", GOOD), f"{path}: {', '.join(names)}"),
        line((f"edit it, then: perdure run --dry-run {path.name}", DIM)),
    )
    session.output.show(view, {"type": "task", "path": str(path), "dimensions": names})


async def validate(file: Path, /, *, session: Given) -> None:
    """Check a task file; every problem is named at once.

    Args:
        file: A task file.
    """
    if not (session.context.folder / file).is_file():
        raise NotFound(f"There is no file {file}.", cure='`perdure new "a goal"` writes one.')
    submission = submit(session, str(file))
    spec = submission.spec
    notes = [line(("! ", WARN), note) for note in submission.notes]
    session.output.show(
        stack(line(("✓ ", GOOD), f"{file} is a valid task of kind {spec.kind}"), *notes),
        {
            "type": "valid",
            "file": str(file),
            "notes": list(submission.notes),
            "spec": spec.model_dump(mode="json"),
        },
    )


async def definitions(
    name: str | None = None, /, *, to: Path | None = None, session: Given
) -> None:
    """The ready-made tasks; with a name, the file itself and how to run it.

    Args:
        name: One of them.
        to: Copy the task and its example into this folder, to edit and run.
    """
    if name is None:
        found = all_definitions()
        tasks = [item.model_dump(mode="json", exclude={"text"}) for item in found]
        session.output.show(definitions_view(found), {"type": "definitions", "tasks": tasks})
        return
    path = definition_file(f"{PREFIX}{name.removeprefix(PREFIX)}", DEFINITIONS)
    found = definition(path.stem if path else name)
    if to is not None:
        await _copied(session, found, session.context.folder / to)
        return
    if session.output.as_json:
        session.output.emit({"type": "definition", **found.model_dump(mode="json")})
        return
    session.output.raw(found.text)
    for row in how_to_run(found):
        session.output.note(row, style=DIM)


async def _copied(session: Session, found: Definition, folder: Path) -> None:
    """The task file, and the folder of its example beside it."""
    path, beside = folder / f"{found.name}.yaml", folder / found.name
    for taken in (path, beside):
        if taken.exists():
            raise NotAllowed(f"{taken} exists already.", cure="Name another folder with --to.")
    folder.mkdir(parents=True, exist_ok=True)
    source = example_folder(found.name)
    if source.is_dir():
        await session.context.lay_out(source, beside)
    path.write_text(found.text, encoding="utf-8")
    shown = (
        path.relative_to(session.context.folder)
        if path.is_relative_to(session.context.folder)
        else path
    )
    view = stack(
        line(("✓ ", GOOD), f"{path}"),
        line((f"edit it, then: perdure run {shown}  (its example: {beside})", DIM)),
    )
    session.output.show(view, {"type": "task", "path": str(path), "example": str(beside)})


async def schema(
    name: Annotated[str | None, Parameter(name="KIND")] = None,
    /,
    *,
    all: bool = False,
    write: Path | None = None,
    check: Path | None = None,
    session: Given,
) -> int:
    """The JSON Schema of a task, a result, a status, an event or a script.

    Args:
        name: agent, refine, roles, delegation, run, result, status, event or script; left out:
            their names.
        all: Every schema, for --write or --check.
        write: Write the schemas into this folder.
        check: Only say which files in this folder are out of date.
    """
    more, folder = session.context.file_formats, session.context.folder
    if all and check is not None:
        return _check_schemas(session, folder / check)
    if all and write is not None:
        paths = [str(path) for path in write_schemas(folder / write, more)]
        told = f"{len(paths)} schemas are in {folder / write}"
        session.output.show(line(told), {"type": "schemas", "paths": paths})
    elif all or write is not None or check is not None:
        raise InvalidInput(
            "--all goes with --write FOLDER or --check FOLDER.", cure="Give both, or a name."
        )
    elif name is None:
        names = list(schemas(more))
        session.output.show(line("\n".join(names)), {"type": "schemas", "names": names})
    else:
        session.output.raw(text_of(schema_of(name, more)))
    return 0


def _check_schemas(session: Session, folder: Path) -> int:
    stale = stale_schemas(folder, session.context.file_formats)
    cure = f"write them anew: perdure schema --all --write {folder}"
    told = "\n".join([*stale, cure] if stale else [f"the schemas in {folder} are up to date"])
    session.output.show(line(told), {"type": "schemas", "stale": stale})
    return 1 if stale else 0


def _name_of(goal: str) -> str:
    """A file name from the first words of a goal."""
    words = re.findall(r"[a-z0-9]+", goal.lower())[:NAME_WORDS]
    return "-".join(words) or "task"
