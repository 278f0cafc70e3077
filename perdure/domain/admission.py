"""What a rubric needs of an installation, told before a run starts or a token is spent."""

from collections.abc import Callable, Collection, Sequence
from typing import Annotated

from pydantic import Field

from perdure.domain.base import Frozen
from perdure.domain.checks import PURE_KINDS, PluginCheck
from perdure.domain.commands import VERIFIED_KINDS, Argv, CommandCheck, VerifiedCheck
from perdure.domain.problems import Problem, nearest_name, shown
from perdure.domain.rubric import Rubric
from perdure.domain.run import Spec, rubric_of

RubricProblems = Callable[[Rubric], Sequence[Problem]]


def no_problems(_: Rubric) -> tuple[Problem, ...]:
    """Finds nothing: for what has no way to compile patterns and schemas."""
    return ()


class Needs(Frozen):
    """What a worker must have, by dimension of a rubric: programs to run, checks of plugins."""

    programs: dict[str, Annotated[VerifiedCheck, Field(discriminator="check")]] = {}
    checks: dict[str, str] = {}

    def and_program(self, name: str, argv: Argv) -> "Needs":
        """Also a program that no dimension names; told under `name` where it is missing."""
        check = CommandCheck(check="command", argv=argv)
        return self.model_copy(update={"programs": {**self.programs, name: check}})


def needs_of(rubric: Rubric) -> Needs:
    """What the dimensions of a rubric need."""
    return Needs(
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


def only_a_worker_knows(spec: Spec) -> list[str]:
    """What of a specification can be said by a worker alone, in sentences.

    Its key of a provider, its programs and sandbox, its plugins and its MCP servers are its own.
    """
    rubric = rubric_of(spec)
    needs = needs_of(rubric) if rubric is not None else Needs()
    asked = {
        "may run the programs of": needs.programs,
        "has the checks of": needs.checks,
        "has the MCP servers": [server.name for server in spec.tools.mcp],
        "has what answers for": [name for name in spec.models.chain("executor") if name != "local"],
    }
    told = [f"{what} {', '.join(names)}" for what, names in asked.items() if names]
    return [f"Only a worker can tell whether it {'; '.join(told)}."] if told else []


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
