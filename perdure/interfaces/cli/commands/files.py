"""Task files: write one from a goal, check one, see the shipped ones and the schemas."""

import re
from pathlib import Path
from typing import Annotated

import yaml
from cyclopts import Parameter

from perdure.domain.foundation.errors import InvalidInput
from perdure.interfaces.cli.commands.load_task import draft_task
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.session import Session
from perdure.interfaces.cli.views.layout import DIM, GOOD, line, stack
from perdure.interfaces.cli.written_files import as_typed, write_file, writing
from perdure.interfaces.schemas import schema_of, schemas, stale_schemas, text_of, write_schemas

NAME_WORDS = 5


async def new(goal: str, /, *, to: Path | None = None, force: bool = False, session: Given) -> None:
    """Write a task file with checks derived from the goal, to edit and run.

    Args:
        goal: What to do, in words.
        to: The file to write. Default: a name made from the goal, in this folder.
        force: Overwrite an existing file.
    """
    if not goal.strip():
        raise InvalidInput(
            "The goal is empty.", cure='Say what is to be done: perdure new "a goal".'
        )
    folder = session.context.folder
    path = folder / (to or f"{_name_of(goal)}.yaml")
    text = draft_task(goal, path=path)
    write_file(path, text.encode(), option="--to", force=force)
    names = [item["name"] for item in yaml.safe_load(text)["rubric"]]
    view = stack(
        line(("✓ ", GOOD), f"{path}: {', '.join(names)}"),
        line((f"edit it, then: perdure run --dry-run {as_typed(path, folder)}", DIM)),
    )
    session.output.show(view, {"type": "task", "path": str(path), "dimensions": names})


async def schema(
    name: Annotated[str | None, Parameter(name="KIND")] = None,
    /,
    *,
    all: bool = False,
    write: Path | None = None,
    check: Path | None = None,
    session: Given,
) -> int:
    """Print the JSON Schema of a task, result, status, event or script.

    Args:
        name: agent, refine, roles, delegation, run, result, status, event or script; left out:
            their names.
        all: Every schema, which is what --write and --check take.
        write: Write all schemas into this folder.
        check: Only name the schemas in this folder that are out of date.
    """
    more, folder = session.context.file_formats(), session.context.folder
    if (all or write or check) and name is not None:
        raise InvalidInput(
            "--write and --check take all schemas, and KIND names one.",
            cure="Leave one of them out.",
        )
    if check is not None:
        return _check_schemas(session, folder / check)
    if write is not None:
        with writing(folder / write, cure="Name another folder with --write."):
            paths = [str(path) for path in write_schemas(folder / write, more)]
        told = f"{len(paths)} schemas are in {folder / write}"
        session.output.show(line(told), {"type": "schemas", "paths": paths})
    elif all:
        raise InvalidInput(
            "--all needs --write FOLDER or --check FOLDER.", cure="Give one of them, or a KIND."
        )
    elif name is None:
        names = list(schemas(more))
        session.output.show(line("\n".join(names)), {"type": "schemas", "names": names})
    else:
        session.output.raw(text_of(schema_of(name, more)))
    return 0


def _check_schemas(session: Session, folder: Path) -> int:
    stale = stale_schemas(folder, session.context.file_formats())
    cure = f"write them anew: perdure schema --write {folder}"
    told = "\n".join([*stale, cure] if stale else [f"the schemas in {folder} are up to date"])
    session.output.show(line(told), {"type": "schemas", "stale": stale})
    return 1 if stale else 0


def _name_of(goal: str) -> str:
    """A file name from the first words of a goal."""
    words = re.findall(r"[a-z0-9]+", goal.lower())[:NAME_WORDS]
    return "-".join(words) or "task"
