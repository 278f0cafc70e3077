"""What a run needs of a worker: by dimension of its rubric, and beside it."""

from perdure.domain.evaluation.program_checks import CommandCheck, named_program
from perdure.domain.evaluation.rubric import Rubric, WorkerRequirements, needs_of

RUBRIC = Rubric.model_validate(
    [
        {"name": "built", "evaluator": {"check": "command", "argv": ["make", "all"]}},
        {"name": "clean", "evaluator": {"check": "lint"}},
        {"name": "tone", "evaluator": {"check": "acme.tone"}},
        {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}},
        {"name": "warm", "evaluator": {"judge": {}}},
    ]
)


def test_programs_and_plugins_are_needed_and_nothing_else() -> None:
    needs = needs_of(RUBRIC)
    assert set(needs.programs) == {"built", "clean"}
    assert needs.checks == {"tone": "acme.tone"}


def test_a_program_beside_the_rubric_joins_those_of_its_dimensions() -> None:
    needs = needs_of(RUBRIC).and_program("smoke", ("pytest", "-q"))
    assert set(needs.programs) == {"built", "clean", "smoke"}
    assert named_program(needs.programs["smoke"]) == "pytest"
    assert needs.checks == {"tone": "acme.tone"}
    alone = WorkerRequirements().and_program("smoke", ("pytest",))
    assert alone.programs == {"smoke": CommandCheck(check="command", argv=("pytest",))}
