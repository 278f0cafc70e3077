"""The ports behind evaluation by programs: what runs them, and what reads their reports."""

from collections.abc import Mapping
from typing import Protocol

from perdure.domain.evaluation.program_checks import Command, Ran, VerifiedCheck
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore

# Sentences by dimension: what is in the way, and what to do.
Obstacles = Mapping[str, str]


class CommandRunner(Protocol):
    """Runs programs that nobody here wrote."""

    async def run(self, command: Command) -> Ran:
        """Run a program on its folder, to its end or that of its time.

        Raises `NotAllowed` when the installation does not allow it, or has no sandbox for it.
        """
        ...

    async def admit(self, program: str) -> None:
        """Raise the `NotAllowed` that running a program would raise here."""
        ...


class Verifier(Protocol):
    """Evaluates the files of an iteration by running programs on them."""

    async def verify(
        self, rubric: Rubric, *, folder: str, output: str
    ) -> tuple[DimensionScore, ...]:
        """Score every dimension that is a command, a test suite or a linter.

        `folder` is the verifier's to change, `output` what the model wrote beside the files.
        """
        ...

    async def obstacles(self, checks: Mapping[str, VerifiedCheck], *, folder: str) -> Obstacles:
        """Why checks, named by their dimensions, could not be run on a folder now."""
        ...
