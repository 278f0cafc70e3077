"""The ready-made tasks: what each is for, which inputs it wants, and the example beside it."""

import hashlib
from importlib.resources import files
from pathlib import Path

from pydantic import JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.submission.packaged_tasks import definition_names
from perdure.submission.parse_yaml import read_file

DEFINITIONS = Path(str(files("perdure"))) / "definitions" / "tasks"
EXAMPLE = "example.yaml"
_DIGEST = 8


class Definition(FrozenModel):
    """A ready-made task.

    `inputs` are those that whoever runs it gives, `options` those that have a value already.
    """

    name: str
    kind: str
    about: str
    inputs: tuple[str, ...]
    options: tuple[str, ...]
    text: str


def definitions() -> tuple[Definition, ...]:
    """All ready-made tasks."""
    return tuple(definition(name) for name in definition_names(DEFINITIONS))


def definition(name: str) -> Definition:
    """One of them, by a name that is known."""
    path = DEFINITIONS / f"{name}.yaml"
    fields = read_file(path)
    context = fields.get("context")
    inputs: dict[str, JsonValue] = context if isinstance(context, dict) else {}
    return Definition(
        name=name,
        kind=str(fields.get("kind")),
        about=" ".join(str(fields.get("about", "")).split()),
        inputs=tuple(key for key, value in inputs.items() if value is None),
        options=tuple(key for key, value in inputs.items() if value is not None),
        text=path.read_text(encoding="utf-8"),
    )


def example_folder(name: str) -> Path:
    """The example of a ready-made task as it is packaged."""
    return DEFINITIONS / name


def example_beside(path: Path) -> Path:
    """The example of a task file: `example.yaml` in the folder of the file's name.

    Raises:
        InvalidInput: there is none.
    """
    found = path.with_suffix("") / EXAMPLE
    if found.is_file():
        return found
    raise InvalidInput(
        f"There is no example of {path}: {found} is missing.",
        cure="Leave --example out, or run a task that `perdure definitions` names.",
    )


def digest(folder: Path) -> str:
    """A short name for what a folder holds: an example is laid out anew when it changes."""
    found = hashlib.sha256()
    for path in sorted(item for item in folder.rglob("*") if item.is_file()):
        found.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:_DIGEST]
