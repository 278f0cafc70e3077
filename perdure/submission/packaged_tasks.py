"""Finds built-in tasks by name, and the inputs that a task requires."""

import re
from pathlib import Path

from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.foundation.problems import Problem, nearest_name
from perdure.submission.layers import Fields

PREFIX = "definitions:"
SUFFIX = ".yaml"
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def definition_names(folder: Path) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in folder.glob(f"*{SUFFIX}")))


def definition_file(task: str, folder: Path | None) -> Path | None:
    """The built-in task that `NAME` or `definitions:NAME` means; None if the text is a goal.

    Raises:
        NotFound: the text looks like a name, and no task has it.
        InvalidInput: it is the name of a loop of roles.
    """
    if folder is None:
        return None
    is_explicit = task.startswith(PREFIX)
    name = task.removeprefix(PREFIX).strip()
    known = definition_names(folder)
    if name in known:
        return folder / f"{name}{SUFFIX}"
    if name in (loops := definition_names(folder.parent / "loops")):
        raise InvalidInput(
            f"{name} is a loop of roles and needs a goal.",
            cure=f'Start it with: perdure loops start {name} "what is to be done".',
        )
    near = nearest_name(name, (*known, *loops))
    # One word with hyphens is hardly a goal, and a typo must not start other work.
    if is_explicit or (near and "-" in name and _NAME.fullmatch(name)):
        hint = f" Did you mean {near}?" if near else ""
        raise NotFound(f"There is no task {name!r}.{hint}", cure=f"There are: {', '.join(known)}.")
    return None


def open_inputs(whole: Fields) -> tuple[Problem, ...]:
    """A problem for each input that the task requires (`null` in its file) and that is missing."""
    context = whole.get("context")
    if not isinstance(context, dict):
        return ()
    return tuple(
        Problem(
            path=f"context.{name}",
            found="nothing",
            allowed=f"an input: --set context.{name}=TEXT or --set context.{name}=file:PATH",
        )
        for name, value in context.items()
        if value is None
    )
