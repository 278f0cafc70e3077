"""Size limits for every list, mapping and text in a specification.

A run carries its specification for its whole life, so it must stay small. Long texts and data
belong in `context` and in files, which are kept by reference.
"""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from perdure.domain.foundation.problems import path_of

MOST_ENTRIES = 1_000
MOST_CHARACTERS = 256 * 1024
DEEPEST = 64
# Data of the task, and schemas: bounded by what an interface takes.
FREE = frozenset({"context", "metadata", "snapshot", "schema", "output_schema", "parameters"})

Steps = tuple[int | str, ...]


def size_problem(value: object) -> str | None:
    """The first part of a specification that is too large, with what to do; None for none."""
    return next(_oversize(value, ()), None)


def _oversize(value: object, steps: Steps) -> Iterator[str]:
    if len(steps) > DEEPEST:
        yield f"{_place(steps[:4])}…: it is nested deeper than {DEEPEST} levels"
        return
    match value:
        case str() if len(value) > MOST_CHARACTERS:
            said = f"{len(value):,} characters, {MOST_CHARACTERS:,} are allowed"
            yield f"{_place(steps)}: {said}; put the text into `context`, or refer to a file"
        case dict():
            yield from _entries(len(value), steps)
            for name, item in value.items():
                if name not in FREE:
                    yield from _oversize(item, (*steps, str(name)))
        case list() | tuple():
            yield from _entries(len(value), steps)
            for place, item in enumerate(value):
                yield from _oversize(item, (*steps, place))
        case _:
            return


def _entries(count: int, steps: Steps) -> Iterator[str]:
    if count > MOST_ENTRIES:
        yield f"{_place(steps)}: {count:,} entries, {MOST_ENTRIES:,} are allowed"


def _place(steps: Steps) -> str:
    return path_of("", steps) or "input"


MAX_ITERATIONS = 10_000


Count = Annotated[int, Field(ge=0, le=MAX_ITERATIONS)]
