"""Failing parts, and merges that never lose anything."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.rubric import Part, Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, overall_score
from perdure.domain.outputs.parts import Version, failing_parts, merge_replies, part_text

WORDS = {"check": "length", "unit": "words", "max": 9}


def dimension(name: str, part: int | None) -> Mapping[str, object]:
    return {"name": name, "part": part, "evaluator": WORDS}


RUBRIC = Rubric.model_validate(
    [dimension("one", 1), dimension("two a", 2), dimension("two b", 2), dimension("three", 3)]
)
WITH_WHOLE = Rubric.model_validate([dimension("one", 1), dimension("whole", None)])


def digits(text: str) -> Evaluation:
    """A stand-in for checks: a line's first digit, in tenths, scores its dimensions."""
    marks = {n: int(part_text(text, n, "lines")[:1] or "0") / 10 for n in (1, 2, 3)}
    return Evaluation(
        dimensions=tuple(
            DimensionScore(name=item.name, score=marks[int(item.part or 1)], source="check")
            for item in RUBRIC.dimensions
        )
    )


def test_failing_parts_name_their_dimensions() -> None:
    scores = {"one": 1.0, "two a": 0.0, "two b": 1.0, "three": 0.5}
    evaluation = Evaluation(
        dimensions=tuple(
            DimensionScore(name=name, score=score, source="check") for name, score in scores.items()
        )
    )
    found = [
        (item.part, [one.name for one in item.dimensions])
        for item in failing_parts(RUBRIC, evaluation)
    ]
    assert found == [(2, ["two a"]), (3, ["three"])]


@pytest.mark.parametrize(
    ("kept", "replies", "merged"),
    [
        pytest.param("5\n5\n5", {2: "7"}, "5\n7\n5", id="better"),
        pytest.param("5\n5\n5", {2: "4"}, "5\n5\n5", id="worse"),
        pytest.param("5\n5\n5", {2: "5 new"}, "5\n5\n5", id="no better: word for word"),
        pytest.param("5\n5\n5", {1: "9", 2: "1", 3: "6"}, "9\n5\n6", id="each part for itself"),
        pytest.param("5\n\n5", {2: "3"}, "5\n3\n5", id="a missing line"),
        pytest.param("5\n5\n5", {2: ""}, "5\n5\n5", id="an empty reply"),
        pytest.param("5\n5\n5", {9: "9"}, "5\n5\n5", id="no such part"),
    ],
)
def test_merge(kept: str, replies: dict[Part, str], merged: str) -> None:
    version = Version(kept, digits(kept))
    assert merge_replies(RUBRIC, version, replies, kind="lines", evaluate=digits).text == merged


def test_a_merge_that_lowers_the_whole_is_not_taken() -> None:
    def evaluate(text: str) -> Evaluation:
        line = int(text[:1])
        return Evaluation(
            dimensions=(
                DimensionScore(name="one", score=line / 10, source="check"),
                DimensionScore(name="whole", score=0.0 if line > 6 else 1.0, source="check"),
            )
        )

    kept = Version("5", evaluate("5"))
    assert merge_replies(WITH_WHOLE, kept, {1: "9"}, kind="lines", evaluate=evaluate) is kept
    assert merge_replies(WITH_WHOLE, kept, {1: "6"}, kind="lines", evaluate=evaluate).text == "6"


LINE = st.integers(0, 9).map(str)


@given(
    lines=st.lists(LINE, min_size=3, max_size=3),
    replies=st.dictionaries(st.integers(1, 4), LINE | st.just(""), max_size=4),
)
def test_a_merge_never_falls_and_keeps_the_better_of_each_part(
    lines: list[str], replies: dict[Part, str]
) -> None:
    kept = Version("\n".join(lines), digits("\n".join(lines)))
    merged = merge_replies(RUBRIC, kept, replies, kind="lines", evaluate=digits)
    before, after = (overall_score(RUBRIC, one.evaluation) for one in (kept, merged))
    assert before is not None
    assert after is not None
    assert after >= before
    assert merged.text.split("\n") == [
        max(line, replies.get(n, "")) for n, line in enumerate(lines, start=1)
    ]
    assert merged.evaluation == digits(merged.text)
