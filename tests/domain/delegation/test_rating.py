"""What a rubric says of a deliverable, and what follows from it."""

import pytest

from perdure.domain.delegation.apply_decision import after_failed_rating, after_rating
from perdure.domain.delegation.deliverables import (
    LEAST_SHOWN_TOKENS,
    deliverable_text,
    gaps,
    shown_work,
)
from perdure.domain.delegation.next_step import AfterCheck, DecisionRefused, End, Repair
from perdure.domain.delegation.progress import ManagerProgress
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding
from perdure.domain.foundation.tokens import estimate

RUBRIC = Rubric.model_validate(
    [
        {"name": "sources", "evaluator": {"check": "contains", "all": ["http"]}},
        {"name": "tone", "evaluator": {"judge": {}}},
    ]
)
DECIDED = Rubric.model_validate(
    [
        {"name": "sources", "decides": True, "evaluator": {"check": "contains", "all": ["http"]}},
        {"name": "tone", "evaluator": {"judge": {}}},
    ]
)
SETTINGS = DelegationSettings()


def said(sources: float, tone: float, *findings: Finding) -> Evaluation:
    return Evaluation(
        dimensions=(
            DimensionScore(name="sources", score=sources, source="check", gap="no link"),
            DimensionScore(name="tone", score=tone, source="judge", gap="", findings=findings),
        )
    )


def finding(title: str, severity: str = "important", **more: str) -> Finding:
    return Finding.model_validate(
        {"id": "F1", "severity": severity, "dimension": "tone", "title": title, **more}
    )


@pytest.mark.parametrize(
    ("final", "files", "text"),
    [
        ("done", {}, "done"),
        ("", {"a.md": "alone"}, "alone"),
        (" ", {"a.md": "alone"}, "alone"),
        ("", {"a.md": "A", "b.md": "B"}, "## File a.md\n\nA\n\n## File b.md\n\nB"),
        ("done", {"a.md": "A"}, "done\n\n## File a.md\n\nA"),
        ("", {}, ""),
    ],
    ids=["result", "file", "blank and file", "files", "result and file", "nothing"],
)
def test_what_is_looked_at(final: str, files: dict[str, str], text: str) -> None:
    assert deliverable_text(final, files) == text


@pytest.mark.parametrize(
    ("evaluation", "lines"),
    [
        (said(1, 0.8), ()),
        (said(0, 0.9), ("sources: no link (0.00)",)),
        (said(0, 0.7), ("sources: no link (0.00)", "tone: not met (0.70)")),
        (said(1, 0.9, finding("stiff", fix="warm it up")), ("tone: stiff To do: warm it up",)),
        (said(1, 0.9, finding("stiff", detail="line 2")), ("tone: stiff: line 2",)),
        (said(1, 0.9, finding("a", "suggestion"), finding("b", "blocker")), ("tone: b",)),
    ],
    ids=["nothing", "a gap", "two gaps", "a fix", "a detail", "only what matters"],
)
def test_what_is_missing(evaluation: Evaluation, lines: tuple[str, ...]) -> None:
    assert gaps(RUBRIC, evaluation, wanted=0.8) == lines


def test_many_and_long_gaps_are_cut() -> None:
    many = [finding(f"{number} " + "x" * 400) for number in range(60)]
    lines = gaps(RUBRIC, said(1, 0.5, *many), wanted=0.8)
    assert len(lines) == 20
    assert max(len(line) for line in lines) == 240


def end_of(directive: AfterCheck) -> tuple[str, str] | None:
    if isinstance(directive, End):
        return directive.verdict.outcome, directive.verdict.reason
    return None


def rate(
    course: ManagerProgress, evaluation: Evaluation, rubric: Rubric = RUBRIC
) -> tuple[ManagerProgress, AfterCheck]:
    return after_rating(course, rubric, evaluation, settings=SETTINGS, phase="core_work")


@pytest.mark.parametrize(
    ("evaluation", "rubric", "end"),
    [
        (said(1, 0.6), RUBRIC, ("accepted", "completed")),
        (said(1, 0.2), RUBRIC, ("accepted", "completed")),
        (said(0, 0.6), RUBRIC, ("failed", "quality_failed")),
        (said(0, 0.8), RUBRIC, None),
        (said(1, 0.0), DECIDED, ("accepted", "completed")),
        (said(0.9, 0.0), DECIDED, None),
    ],
    ids=["good", "warned", "hopeless", "sent back", "decided", "not decided"],
)
def test_what_follows_from_the_score(
    evaluation: Evaluation, rubric: Rubric, end: tuple[str, str] | None
) -> None:
    assert end_of(rate(ManagerProgress(), evaluation, rubric)[1]) == end


def test_the_same_gaps_twice_make_a_repair_that_names_them() -> None:
    course, first = rate(ManagerProgress(), said(0, 0.8))
    assert isinstance(first, DecisionRefused) and "sources: no link" in first.why
    assert any("sources: no link" in note for note in course.notes)
    _, second = rate(course, said(0, 0.8))
    assert isinstance(second, Repair) and "sources: no link" in second.envelope.instructions


def test_two_failed_evaluations_in_a_row_end_the_run() -> None:
    course, first = after_failed_rating(ManagerProgress(), "no usable verdict")
    assert isinstance(first, DecisionRefused) and "no usable verdict" in first.why
    assert end_of(after_failed_rating(course, "again")[1]) == ("failed", "evaluator_failed")


def test_a_score_between_two_failures_starts_the_count_anew() -> None:
    course, _ = after_failed_rating(ManagerProgress(), "no usable verdict")
    course, _ = rate(course, said(0, 0.8))
    assert end_of(after_failed_rating(course, "again")[1]) is None


def test_a_reviewer_sees_whole_texts_where_they_fit() -> None:
    work = {"final result": "a" * 30_000, "file notes.md": "b" * 30_000}
    assert shown_work(work, room=40_000) == work


def test_of_texts_that_do_not_fit_beginning_and_end_are_shown() -> None:
    work = {
        "final result": "short",
        "file a": f"first{'a' * 200_000}last",
        "file b": "b" * 90_000,
    }
    shown = shown_work(work, room=None)
    assert shown["final result"] == "short"
    begin, told, end = shown["file a"].split("\n")
    assert begin.startswith("first") and end.endswith("last")
    left_out = len(work["file a"]) - len(begin) - len(end)
    assert told == f"[{left_out:,} characters left out]"
    # What is left of the room is shared evenly.
    assert abs(len(shown["file a"]) - len(shown["file b"])) < 10
    assert sum(estimate(text).total for text in shown.values()) < 1.1 * LEAST_SHOWN_TOKENS
