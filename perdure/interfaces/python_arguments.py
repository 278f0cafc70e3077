"""What Python programs hand over, checked where they call: wrong types are refused in words."""

from collections.abc import Mapping
from operator import index
from typing import SupportsIndex, TypeVar

from pydantic import BaseModel, ValidationError

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import format_value, problems_of
from perdure.submission.plain_values import plain_fields
from perdure.submission.types import Flags

M = TypeVar("M", bound=BaseModel)
RUN = "the id of a run, a unique beginning of it, or @last; a handle has it as run.id"
EXPERIMENT = "the id of an experiment, a unique beginning of it, or @last; a handle has it as .id"


def wrong(name: str, found: object, allowed: str) -> InvalidInput:
    """The refusal of one argument."""
    told = f"{name}: found {format_value(found)}; allowed: {allowed}."
    return InvalidInput(
        told, problems=((name, f"found {format_value(found)}; allowed: {allowed}."),)
    )


def text(name: str, value: object, *, allowed: str = "a text that is not empty") -> str:
    """An argument that is a text with something in it.

    Raises:
        InvalidInput: it is something else.
    """
    if not isinstance(value, str) or not value.strip():
        raise wrong(name, value, allowed)
    return str(value)


def text_or_none(name: str, value: object) -> str | None:
    """The same where it may be left out."""
    return None if value is None else text(name, value)


def count(name: str, value: object, *, least: int) -> int:
    """An argument that is a whole number, also one of numpy's.

    Raises:
        InvalidInput: it is something else, or below `least`.
    """
    number = index(value) if isinstance(value, SupportsIndex) else None
    # `True` is an index too, and would be iteration 1.
    if number is None or isinstance(value, bool) or number < least:
        raise wrong(name, value, f"a whole number of at least {least}")
    return number


def made(kind: type[M], fields: Mapping[str, object], *, heading: str) -> M:
    """A model of these fields, such as a message to a run.

    Args:
        kind: the model.
        fields: its fields as a program has them.
        heading: what it is, at the beginning of an error about values that JSON cannot say.

    Raises:
        InvalidInput: a field is wrong; the message names all that are.
    """
    told = plain_fields(fields, heading=heading)
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        problems = problems_of(error, told)
        raise InvalidInput(
            "; ".join(str(problem).rstrip(".") for problem in problems) + ".",
            problems=((problem.path, problem.words) for problem in problems),
        ) from None


def flags_of(given: object) -> Flags:
    """The flags; others than `Flags` are refused, since a mapping is a task of its own.

    Raises:
        InvalidInput: it is something else.
    """
    if given is None or isinstance(given, Flags):
        return given or Flags()
    raise wrong("flags", given, "perdure.Flags(…); or write the fields into the task")
