"""Decorators that are written with brackets and without."""

from collections.abc import Callable
from typing import TypeVar

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import format_value

Made = TypeVar("Made")


def decorated(
    word: str, given: object, decorate: Callable[[Callable[..., object]], Made]
) -> Made | Callable[[Callable[..., object]], Made]:
    """The decorator, or what it makes of the function that it was put on without brackets.

    Args:
        word: its name.
        given: what stands in its first place: a function, or None.
        decorate: makes something of a function.

    Raises:
        InvalidInput: something else stands there.
    """
    if given is None:
        return decorate
    # A partial, or an object with `__call__`, has no name that a task could use.
    if callable(given) and hasattr(given, "__name__"):
        return decorate(given)
    if callable(given):
        raise InvalidInput(
            f"@{word}: found {format_value(given)}, which is no function.",
            cure="Write a function with `def` that calls it, and decorate that.",
        )
    raise InvalidInput(
        f"@{word}: found {format_value(given)} in front; allowed: fields by their names.",
        cure=f"Write @{word}(name='acme.plain').",
    )
