"""Delta feedback: only what is open, only what matters."""

import pytest

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding
from perdure.domain.outputs.compression import Compressed
from perdure.domain.scoring.feedback import (
    delta_feedback,
    excerpt_for_judge,
    failure_feedback,
    later_messages,
    shown_draft,
)

RUBRIC = Rubric.model_validate(
    [
        {"name": "tone", "evaluator": {"judge": {}}},
        {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}},
        {"name": "style", "evaluator": {"judge": {}}},
    ]
)


def finding(severity: str, title: str, dimension: str = "tone", **more: str) -> Finding:
    return Finding.model_validate(
        {"id": title, "severity": severity, "dimension": dimension, "title": title, **more}
    )


def evaluation(tone: float, short: float, style: float, *findings: Finding) -> Evaluation:
    scores = {"tone": (tone, "stiff"), "short": (short, "14 words"), "style": (style, "plain")}
    return Evaluation(
        dimensions=tuple(
            DimensionScore(
                name=name,
                score=score,
                source="judge",
                gap=gap,
                findings=tuple(one for one in findings if one.dimension == name),
            )
            for name, (score, gap) in scores.items()
        )
    )


def test_blockers_first_each_with_its_fix_or_detail_and_no_suggestions() -> None:
    found = evaluation(
        0.5,
        0.0,
        0.9,
        finding("suggestion", "a comma"),
        finding("important", "stiff opening", detail="line 1"),
        finding("blocker", "an insult", fix="remove it"),
    )
    assert delta_feedback(RUBRIC, found, threshold=0.8).splitlines() == [
        "- [blocker] an insult → remove it",
        "- [important] stiff opening → line 1",
        "- short: 0.00, 14 words",
    ]


def test_a_dimension_with_a_finding_is_not_told_twice() -> None:
    found = evaluation(0.5, 1.0, 0.9, finding("important", "stiff"))
    assert delta_feedback(RUBRIC, found, threshold=0.8) == "- [important] stiff"


def test_suggestions_when_nothing_else_is_open() -> None:
    found = evaluation(0.9, 1.0, 0.9, finding("suggestion", "a comma"))
    assert delta_feedback(RUBRIC, found, threshold=0.8) == "- [suggestion] a comma"


def test_the_weakest_dimension_when_nothing_is_open() -> None:
    found = evaluation(0.95, 1.0, 0.85)
    assert delta_feedback(RUBRIC, found, threshold=0.8) == "- style: 0.85, plain"


def test_nothing_to_say_of_a_perfect_output() -> None:
    assert delta_feedback(RUBRIC, evaluation(1.0, 1.0, 1.0), threshold=0.8) == ""


def test_later_iterations_carry_the_previous_output_and_the_delta() -> None:
    messages = later_messages("The task.", previous=Compressed("draft"), feedback="- fix it")
    assert [(one.role, one.pinned) for one in messages] == [
        ("user", True),
        ("assistant", False),
        ("user", True),
    ]
    assert messages[1].text == "draft"
    assert messages[2].text.endswith("Still open:\n- fix it")


def test_without_a_draft_the_delta_follows_the_task() -> None:
    (message,) = later_messages("The task.", previous=None, feedback="- fix it")
    assert message.text == "The task.\n\n- fix it"


def test_an_unscored_iteration_tells_its_error_and_the_last_delta() -> None:
    assert failure_feedback("timed out", "") == "The previous attempt failed: timed out"
    assert failure_feedback("timed out", "- short").endswith("Still open from before:\n- short")


def test_a_folded_output_is_explained() -> None:
    folded = Compressed("a [... lines 2-9 unchanged #000000 ...]", folds=1, left_out=900)
    *_, asked = later_messages("The task.", previous=folded, feedback="- fix it")
    assert "repeat its mark" in asked.text
    assert asked.text.endswith("Still open:\n- fix it")
    *_, plain = later_messages("The task.", previous=Compressed("a"), feedback="- fix it")
    assert "mark" not in plain.text


LONG = "\n\n".join([f"Paragraph {n} says {'much ' * 60}." for n in range(12)])


@pytest.mark.parametrize(
    ("located", "folds"),
    [({"location": "Paragraph 7"}, True), ({}, False)],
    ids=["said where", "may be anywhere"],
)
def test_what_is_open_is_never_folded(located: dict[str, str], folds: bool) -> None:
    open_finding = finding("important", "too long-winded", **located)
    found = evaluation(0.5, 1.0, 0.9, open_finding)
    shown = shown_draft(RUBRIC, found, LONG, threshold=0.8, changed=[])
    assert "Paragraph 7 says much" in shown.text
    assert (shown.folds > 0) == folds


def test_a_judge_sees_what_changed_and_what_is_open() -> None:
    located = finding("important", "x", location="Paragraph 2")
    shown = excerpt_for_judge(LONG, changed=[(21, 21)], findings=[located]).text
    assert "Paragraph 2 says much" in shown
    assert "Paragraph 10 says much" in shown
    assert "Paragraph 6 says much" not in shown.replace("unchanged #", "")
