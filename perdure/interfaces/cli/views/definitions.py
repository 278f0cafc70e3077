"""The ready-made tasks as a list, and how one of them is run."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from perdure.interfaces.cli.views.layout import DIM, line, stack, table
from perdure.interfaces.definitions import Definition


def definitions_view(found: Sequence[Definition]) -> RenderableType:
    """One row per task, then what to type."""
    rows = [(item.name, item.kind, _first_sentence(item.about)) for item in found]
    return stack(
        table(("name", "kind", "about"), rows, whole=("name", "kind")),
        line(("\nsee one work    perdure run NAME --example", DIM)),
        line(("its file        perdure definitions NAME", DIM)),
        line(("a copy to edit  perdure definitions NAME --to FOLDER", DIM)),
    )


def how_to_run(found: Definition) -> Iterator[str]:
    """What to type, with an example and with one's own inputs."""
    given = "".join(f" --set context.{name}=file:PATH" for name in found.inputs)
    yield f"See it work: perdure run {found.name} --example"
    yield f"Run it:      perdure run {found.name}{given}"
    if found.options:
        options = ", ".join(f"context.{name}" for name in found.options)
        yield f"May be set:  {options}"


def _first_sentence(text: str) -> str:
    head, dot, _ = text.partition(". ")
    return f"{head}." if dot else text
