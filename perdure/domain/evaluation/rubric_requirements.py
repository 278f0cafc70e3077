"""What a rubric needs of an installation, told before a run starts or a token is spent."""

from collections.abc import Callable, Collection, Sequence
from typing import Annotated

from pydantic import Field

from perdure.domain.evaluation.checks import PURE_KINDS, PluginCheck
from perdure.domain.evaluation.program_checks import (
    VERIFIED_KINDS,
    Argv,
    CommandCheck,
    VerifiedCheck,
)
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import Problem, nearest_name, shown

RubricProblems = Callable[[Rubric], Sequence[Problem]]


def no_problems(_: Rubric) -> tuple[Problem, ...]:
    """Finds nothing: for what has no way to compile patterns and schemas."""
    return ()


class WorkerRequirements(FrozenModel):
    """What a worker must have, by dimension of a rubric: programs to run, checks of plugins."""

    programs: dict[str, Annotated[VerifiedCheck, Field(discriminator="check")]] = {}
    checks: dict[str, str] = {}

    def and_program(self, name: str, argv: Argv) -> "WorkerRequirements":
        """Also a program that no dimension names; told under `name` where it is missing."""
        check = CommandCheck(check="command", argv=argv)
        return self.model_copy(update={"programs": {**self.programs, name: check}})


def needs_of(rubric: Rubric) -> WorkerRequirements:
    """What the dimensions of a rubric need."""
    return WorkerRequirements(
        programs={
            item.name: item.verified_check
            for item in rubric.dimensions
            if item.verified_check is not None
        },
        checks={
            item.name: item.evaluator.check
            for item in rubric.dimensions
            if isinstance(item.evaluator, PluginCheck)
        },
    )


def unknown_checks(
    rubric: Rubric, known: Collection[str], *, root: str = "rubric"
) -> tuple[Problem, ...]:
    """Checks that are neither built in nor among the names that plugins bring."""
    names = (*PURE_KINDS, *VERIFIED_KINDS, *sorted(known))
    return tuple(
        Problem(
            path=f"{root}[{index}].evaluator.check",
            found=shown(item.evaluator.check),
            allowed="one of " + ", ".join(names) + ", or a check of a plugin (--plugin FILE)",
            nearest=nearest_name(item.evaluator.check, names),
        )
        for index, item in enumerate(rubric.dimensions)
        if isinstance(item.evaluator, PluginCheck) and item.evaluator.check not in known
    )
