"""Collects the problems of an experiment's parts, so that no mistake hides another."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import Problem

T = TypeVar("T")
HEADING = "The experiment cannot be run:"
CURE = "Correct these; see docs/experiments.md."


class Findings:
    """The refusals of the parts that were read so far."""

    def __init__(self) -> None:
        self._refusals: list[InvalidInput] = []

    def add(self, refusal: InvalidInput) -> None:
        """Keep one, and go on with the other parts."""
        self._refusals.append(refusal)

    def part(self, read: Callable[[], T]) -> T | None:
        """What `read` returns; None if it refuses its part."""
        try:
            return read()
        except InvalidInput as refusal:
            self.add(refusal)
            return None

    def settle(self) -> None:
        """Raise what was found, if anything was.

        Raises:
            InvalidInput: the one refusal as it is, or one that lists all.
        """
        if len(self._refusals) == 1:
            raise self._refusals[0]
        if self._refusals:
            told = "\n".join(_indented(refusal.message) for refusal in self._refusals)
            listed = (pair for refusal in self._refusals for pair in refusal.problems)
            raise InvalidInput(f"{HEADING}\n{told}", cure=CURE, problems=listed)


def experiment_error(problems: Sequence[Problem]) -> InvalidInput:
    """The error that lists problems of an experiment."""
    told = "\n".join(f"  {problem}" for problem in problems)
    return InvalidInput(
        f"{HEADING}\n{told}",
        cure=CURE,
        problems=((problem.path, problem.words) for problem in problems),
    )


def _indented(message: str) -> str:
    """The lines of a refusal as part of a list."""
    lines = message.strip().splitlines()
    # Its own heading would stand in the middle of the list.
    return "\n".join(lines[1:] if lines[0] == HEADING else [f"  {line}" for line in lines])
