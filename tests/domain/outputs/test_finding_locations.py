"""Where findings point in an output."""

import pytest

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding
from perdure.domain.outputs.finding_locations import lines_of, pointed_lines, touched_dimensions

TEXT = "# Pumps\n\nThe pump is old.\n\ndef login(user):\n    return user\n\nThe end."
RUBRIC = Rubric.model_validate(
    [
        {"name": "tone", "evaluator": {"judge": {}}},
        {"name": "words", "evaluator": {"check": "contains", "all": ["x"], "none": ["OLD"]}},
        {"name": "lines", "evaluator": {"check": "contains", "none": ["old.\n\ndef"]}},
        {"name": "dates", "evaluator": {"check": "regex", "pattern": "20.."}},
        {"name": "clean", "evaluator": {"check": "regex", "pattern": "'", "count": 0}},
        {"name": "short", "evaluator": {"check": "length", "unit": "words", "min": 5, "max": 9}},
    ]
)


@pytest.mark.parametrize(
    ("where", "lines"),
    [
        ("line 3", {3}),
        ("lines 5-6", {5, 6}),
        ("Lines 5 to 6", {5, 6}),
        ("lines 1-99999999", set(range(1, 9))),
        ("lines 0-1", {1}),
        ("Pumps", {1}),
        ('the words "pump is OLD"', {3}),
        ("`login`", {5}),
        ("login()", {5}),
        ("nowhere at all", set()),
        ("", set()),
        ("the", set()),
    ],
)
def test_locations(where: str, lines: set[int]) -> None:
    assert lines_of(where, TEXT) == lines


def dimension(name: str, score: float, gap: str = "gap", **finding: str) -> DimensionScore:
    found = {"id": "F1", "severity": "important", "dimension": name, "title": "wrong", **finding}
    return DimensionScore(
        name=name,
        score=score,
        source="judge",
        gap=gap,
        findings=(Finding.model_validate(found),) if finding else (),
    )


@pytest.mark.parametrize(
    ("item", "pointed"),
    [
        pytest.param(dimension("tone", 0.5, location="line 3"), {3}, id="located"),
        pytest.param(dimension("tone", 0.5, title='"The end" is dull'), {8}, id="quoted"),
        pytest.param(dimension("tone", 0.5, title="dull"), None, id="anywhere"),
        pytest.param(dimension("tone", 0.5), None, id="a gap without a place"),
        pytest.param(dimension("tone", 0.5, 'dull from "The end" on'), {8}, id="a gap with one"),
        pytest.param(dimension("tone", 0.9), set(), id="good enough"),
        pytest.param(dimension("tone", 0.9, severity="suggestion"), set(), id="a suggestion"),
        pytest.param(dimension("words", 0.5, "missing: x", fix="Use x."), set(), id="to be added"),
        pytest.param(dimension("words", 0.5, "not wanted: old"), {3}, id="a word that is to go"),
        pytest.param(
            dimension("words", 0, "missing: x; not wanted: old"), {3}, id="one to go, one to come"
        ),
        pytest.param(
            dimension("lines", 0, "not wanted: old.\n\ndef"), None, id="words across lines"
        ),
        pytest.param(dimension("dates", 0, "0 matches of 20.., wanted 1"), set(), id="more of it"),
        pytest.param(dimension("clean", 0, "1 matches of ', none allowed"), None, id="a pattern"),
        pytest.param(dimension("short", 0, "3 words, at least 5 wanted"), set(), id="too short"),
        pytest.param(dimension("short", 0, "30 words, limit 9"), None, id="too long"),
    ],
)
def test_what_must_be_seen(item: DimensionScore, pointed: set[int] | None) -> None:
    others = [DimensionScore(name=d.name, score=1.0, source="judge") for d in RUBRIC.dimensions]
    evaluation = Evaluation(
        dimensions=tuple(item if other.name == item.name else other for other in others)
    )
    assert pointed_lines(RUBRIC, evaluation, TEXT, threshold=0.8) == pointed


def test_evidence_that_was_touched() -> None:
    evidence = {"tone": ("line 3",), "logic": ("`login`", "nowhere"), "other": ("line 8",)}
    assert touched_dimensions(evidence, TEXT, [(4, 5)]) == ("logic",)
    assert touched_dimensions(evidence, TEXT, []) == ()


@pytest.mark.parametrize(
    ("items", "pointed"),
    [
        pytest.param(
            [dimension("tone", 0.5), dimension("logic", 0.5, location="line 3")],
            {3},
            id="another gap has a place",
        ),
        pytest.param(
            [dimension("tone", 0.5).model_copy(update={"evidence": ("line 8",)})],
            {8},
            id="its dimension had one before",
        ),
        pytest.param(
            [
                dimension("tone", 0.5, title="dull"),
                dimension("logic", 0.5, "wrong from `login` on"),
            ],
            {5},
            id="a finding has none and a gap has one",
        ),
        pytest.param(
            [
                dimension("tone", 0.5).model_copy(update={"evidence": ("line 8",)}),
                dimension("logic", 0.5, location="lines 5-6"),
            ],
            {5, 6, 8},
            id="its own passage and the other place",
        ),
        pytest.param(
            [dimension("tone", 0.5).model_copy(update={"evidence": ("nowhere at all",)})],
            None,
            id="its place is gone",
        ),
        pytest.param([dimension("tone", 0.5), dimension("logic", 0.9)], None, id="none has any"),
        pytest.param(
            [dimension("short", 0, "30 words, limit 9"), dimension("tone", 0.5, location="line 3")],
            None,
            id="a check without a place is about all of it",
        ),
    ],
)
def test_a_gap_without_a_place_costs_no_whole_draft(
    items: list[DimensionScore], pointed: set[int] | None
) -> None:
    judged = [{"name": "tone", "evaluator": {"judge": {}}},
              {"name": "logic", "evaluator": {"judge": {}}}]  # fmt: skip
    short = {"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}
    rubric = Rubric.model_validate([*judged, short])
    assert (
        pointed_lines(rubric, Evaluation(dimensions=tuple(items)), TEXT, threshold=0.8) == pointed
    )
