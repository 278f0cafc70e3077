"""Delta feedback: only what is open, only what matters."""

from perdure.domain.evaluation import DimensionScore, Evaluation, Finding
from perdure.domain.refine.feedback import delta_feedback, failure_feedback, later_messages
from perdure.domain.rubric import Rubric

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
    messages = later_messages("The task.", previous="draft", feedback="- fix it")
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
