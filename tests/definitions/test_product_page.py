"""The product page task: 17 checks over five lines, and the loop of failing lines that meets it."""

from importlib import resources

import pytest
import yaml
from part_requests import part_requests

from perdure.adapters.checks import check_problems, evaluate_checks
from perdure.domain.evaluation.check_termination import TerminationFacts
from perdure.domain.evaluation.rubric import Part
from perdure.domain.evaluation.scores import Evaluation, overall_score
from perdure.domain.evaluation.trajectory import Trajectory
from perdure.domain.outputs.parts import (
    Version,
    failing_parts,
    merge_replies,
    part_reply,
    tidy_output,
)
from perdure.domain.refine.prompts import Brief, first_messages
from perdure.domain.refine.spec import RefineSpec, settings_problems
from perdure.domain.refine.stop_rules import Facts, decide

TEXT = resources.files("perdure").joinpath("definitions/tasks/product-page.yaml").read_text("utf-8")
SPEC = RefineSpec.model_validate(yaml.safe_load(TEXT))
PAGE = (
    "Name: Summit Steel Water Bottle",
    "Material: Brushed steel, light and tough.",
    "Use: For hiking, the office and long trips.",
    "Care: Wash with soap and a soft brush.",
    "Slogan: Ice cold, all day long!",
)
DRAFT = "Here is the page:\n\nName: Alpine Blanket\nMaterial: steel\nCare: soap\n"


def evaluate(text: str) -> Evaluation:
    return Evaluation(dimensions=evaluate_checks(SPEC.rubric, text))


def test_the_task_fits_together() -> None:
    assert len(SPEC.rubric) == 17
    assert SPEC.rubric.parts == (1, 2, 3, 4, 5)
    assert settings_problems(SPEC.refine, SPEC.rubric) == ()
    assert check_problems(SPEC.rubric) == ()
    assert (SPEC.refine.plan, SPEC.refine.quality_threshold, SPEC.recall, SPEC.learn) == (
        "off",
        1.0,
        False,
        False,
    )


def test_a_good_page_passes_all_checks() -> None:
    assert overall_score(SPEC.rubric, evaluate("\n".join(PAGE))) == 1.0


def test_the_worked_examples_alone_are_no_solution() -> None:
    examples = [SPEC.rubric.example_of(part) for part in SPEC.rubric.parts]
    answers = "\n".join(example.answer for example in examples if example)
    evaluation = evaluate(answers)
    assert len(failing_parts(SPEC.rubric, evaluation)) == 5
    for name in ("label", "length"):
        scores = [one.score for one in evaluation.dimensions if one.name.endswith(name)]
        assert scores == [1.0] * 5


def test_prompts_are_short_and_never_show_the_draft() -> None:
    brief = Brief(goal=SPEC.goal)
    assert (
        sum(len(one.text) for one in first_messages(brief, SPEC.rubric, SPEC.refine.output)) < 1500
    )
    kept = tidy_output(DRAFT, SPEC.rubric, "lines")
    for request in part_requests(brief, SPEC.rubric, SPEC.refine.output, evaluation=evaluate(kept)):
        said = [one.text for one in request.messages]
        assert sum(map(len, said)) < 500
        assert not any(line in text for line in kept.split("\n") if line for text in said)


def test_rounds_of_failing_lines_end_in_quality_met() -> None:
    text = tidy_output(DRAFT, SPEC.rubric, "lines")
    kept = Version(text, evaluate(text))
    trajectory = Trajectory().after(overall_score(SPEC.rubric, kept.evaluation))
    asked: list[tuple[Part, ...]] = []
    while True:
        failing = failing_parts(SPEC.rubric, kept.evaluation)
        facts = Facts(
            loop=TerminationFacts(trajectory=trajectory),
            settings=SPEC.refine,
            failing_parts=len(failing),
        )
        decision = decide(facts)
        if decision.ends:
            break
        asked.append(tuple(one.part for one in failing))
        # One line a round gets better; the others come back as they were.
        part = failing[0].part
        said = f'"{PAGE[int(part) - 1]}"\nHope you like it!'
        replies = {part: part_reply(said, part, "lines")}
        kept = merge_replies(SPEC.rubric, kept, replies, kind="lines", evaluate=evaluate)
        trajectory = trajectory.after(overall_score(SPEC.rubric, kept.evaluation))
    assert kept.text.split("\n") == list(PAGE)
    assert (decision.decision, decision.reason) == ("accept", "quality_met")
    assert asked == [(1, 2, 3, 4, 5), (2, 3, 4, 5), (3, 4, 5), (4, 5), (5,)]


@pytest.mark.parametrize("part", [1, 2, 3, 4, 5])
def test_every_line_is_told_exactly_its_own_demands(part: int) -> None:
    requests = part_requests(
        Brief(goal=SPEC.goal), SPEC.rubric, SPEC.refine.output, evaluation=evaluate("")
    )
    text = requests[part - 1].messages[-1].text
    hints = [one.hint for one in SPEC.rubric.of_part(part)]
    assert text == f"{SPEC.goal} Write line {part} only. {' '.join(hints)}"
