"""What an output needs of an evaluation, and that carrying forward never hides anything."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding, severity_cap
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.outputs.diff import KINDS, Changes
from perdure.domain.refine.incremental import FULL_FROM, Scope, look_at, with_mode_and_drift
from perdure.domain.refine.state import BestDraft
from perdure.domain.scoring.combine import combined
from perdure.domain.scoring.judging import Question

NAMES = ("tone", "accuracy", "tests")
RUBRIC = Rubric.model_validate(
    [{"name": name, "evaluator": {"judge": {}}} for name in NAMES]
    + [{"name": "short", "evaluator": {"check": "length", "unit": "words", "max": 9}}]
)
JUDGELESS = Rubric.model_validate([{"name": "s", "evaluator": {"check": "contains", "all": ["a"]}}])
PASSED = (DimensionScore(name="short", score=1.0, source="check"),)
FAILED = (DimensionScore(name="short", score=0.0, source="check", gap="long"),)


def finding(dimension: str, severity: str = "suggestion") -> Finding:
    given = {"id": f"F-{dimension}", "severity": severity, "dimension": dimension, "title": "t"}
    return Finding.model_validate(given)


def judged(*scores: float, open_in: Sequence[str] = ()) -> tuple[DimensionScore, ...]:
    return tuple(
        DimensionScore(
            name=name,
            score=score,
            source="judge",
            gap="" if score == 1 else "gap",
            findings=(finding(name),) if name in open_in else (),
        )
        for name, score in zip(NAMES, scores, strict=True)
    )


def previous(
    *scores: float, score: float = 0.85, open_in: Sequence[str] = (), drift: float = 0.0
) -> BestDraft:
    return BestDraft(
        iteration=1,
        output=BlobRef(hash="sha256:a"),
        score=score,
        evaluation=Evaluation(
            dimensions=(*judged(*scores or (0.9, 0.9, 0.9), open_in=open_in), *PASSED), drift=drift
        ),
    )


def look(
    before: BestDraft | None,
    *,
    fraction: float | None = 0.3,
    kinds: Sequence[str] = (),
    touched: Sequence[str] = (),
    checks: tuple[DimensionScore, ...] = PASSED,
    identical: bool = False,
    follows: bool = True,
    is_long: bool = True,
    rubric: Rubric = RUBRIC,
) -> Scope:
    changes = None
    if fraction is not None:
        changes = Changes.model_validate(
            {"fraction": fraction, "spans": [(1, 1)], "kinds": kinds, "touched": touched}
        )
    return look_at(
        rubric,
        previous=before,
        follows=follows,
        checks=checks,
        changes=changes,
        identical=identical,
        is_long=is_long,
        confidence=0.95,
        threshold=0.8,
    )


@pytest.mark.parametrize(
    ("found", "kind", "asked"),
    [
        pytest.param(look(None), "full", NAMES, id="first"),
        pytest.param(look(previous(), fraction=0.61), "full", NAMES, id="over 60 %"),
        pytest.param(look(previous(), fraction=0.6), "incremental", (), id="60 %"),
        pytest.param(look(previous(), fraction=None), "full", NAMES, id="no diff"),
        pytest.param(look(previous(), identical=True), "skipped_identical", (), id="identical"),
        pytest.param(look(previous(score=0.95)), "skipped_confident", (), id="confident"),
        pytest.param(look(previous(score=0.94)), "incremental", (), id="just not confident"),
        pytest.param(
            look(previous(0.7, 0.9, 0.9, score=0.96), checks=FAILED),
            "incremental",
            ("tone",),
            id="a failing check",
        ),
        pytest.param(
            look(previous(0.7, 0.9, 0.9, score=0.96), follows=False),
            "incremental",
            ("tone",),
            id="not the last one",
        ),
        pytest.param(
            look(previous(0.7, 1, 1, score=0.9), fraction=0.1), "incremental", (), id="small"
        ),
        pytest.param(
            look(previous(0.7, 1, 1, score=0.89), fraction=0.1),
            "incremental",
            ("tone",),
            id="small, but not so good",
        ),
        pytest.param(
            look(previous(0.7, 1, 1, score=0.9), fraction=0.11),
            "incremental",
            ("tone",),
            id="good, but not so small",
        ),
        pytest.param(
            look(previous(open_in=["accuracy"])), "incremental", ("accuracy",), id="open finding"
        ),
        pytest.param(
            look(previous(), touched=["accuracy"]), "incremental", ("accuracy",), id="evidence"
        ),
        pytest.param(look(previous(), kinds=["tests"]), "incremental", ("tests",), id="kind"),
        pytest.param(look(previous(), kinds=["docs"]), "incremental", ("tone",), id="prose"),
        pytest.param(look(previous(0.1, 0.2, 0.3)), "incremental", NAMES, id="all, on an excerpt"),
        pytest.param(
            look(previous(0.1, 0.2, 0.3), is_long=False), "full", NAMES, id="all of a short one"
        ),
        pytest.param(look(previous(drift=0.8)), "full", NAMES, id="much has changed in all"),
        pytest.param(look(previous(), rubric=JUDGELESS), "full", (), id="no judge"),
    ],
)
def test_what_is_looked_at(found: Scope, kind: str, asked: tuple[str, ...]) -> None:
    assert (found.kind, found.asked) == (kind, asked)


SCORES = st.tuples(*[st.sampled_from([0.1, 0.5, 0.79, 0.8, 0.9, 1.0])] * 3)
OPEN = st.sets(st.sampled_from(NAMES))


@given(
    SCORES,
    OPEN,
    st.floats(0, 1),
    st.floats(0, 1),
    st.sets(st.sampled_from(KINDS)),
    st.sets(st.sampled_from(NAMES)),
    st.lists(st.sampled_from([0.2, 0.9]), min_size=3, max_size=3),
)
def test_no_dimension_is_dropped_and_what_is_carried_is_as_it_was(
    scores: tuple[float, ...],
    open_in: set[str],
    fraction: float,
    score: float,
    kinds: set[str],
    touched: set[str],
    new: list[float],
) -> None:
    before = previous(*scores, score=score, open_in=sorted(open_in))
    seen = look(before, fraction=fraction, kinds=sorted(kinds), touched=sorted(touched))
    known = before.evaluation
    assert known is not None
    verdict = [item for item in judged(*new) if item.name in seen.asked]
    made = combined(RUBRIC, checks=PASSED, judged=verdict, before=known, asked=seen.asked)
    assert [item.name for item in made.dimensions] == [*NAMES, "short"]
    for item in made.dimensions[:3]:
        old = known.get(item.name)
        assert old is not None
        assert item.carried == (item.name not in seen.asked)
        assert not item.stale
        if item.carried:
            assert (item.score, item.findings) == (old.score, old.findings)
        elif item.score != 1:
            assert item.findings == old.findings, "a finding closes only when the judge says so"
    if seen.kind == "incremental" and seen.asked:
        below = {name for name, value in zip(NAMES, scores, strict=True) if value < 0.8}
        assert open_in | below | touched <= set(seen.asked)
    if fraction > FULL_FROM and seen.kind != "skipped_confident":
        assert seen.asked == NAMES


@given(st.lists(st.floats(0.11, 0.6), min_size=3, max_size=12))
def test_the_whole_is_judged_again_before_as_much_as_the_whole_has_changed(
    fractions: list[float],
) -> None:
    before, unseen = previous(open_in=["tone"]), 0.0
    for fraction in fractions:
        seen = look(before, fraction=fraction)
        unseen = 0.0 if seen.kind == "full" else unseen + fraction
        assert round(unseen, 3) <= 1.0  # the drift is kept to four decimals
        changes = Changes(fraction=fraction)
        evaluation = with_mode_and_drift(before.evaluation, seen, before.evaluation, changes)
        before = before.model_copy(update={"evaluation": evaluation})


def test_a_judge_that_fails_leaves_only_what_it_was_asked_for_stale() -> None:
    before = previous().evaluation
    made = combined(RUBRIC, checks=PASSED, judged=None, before=before, asked=("tone",))
    tone, accuracy = made.get("tone"), made.get("accuracy")
    assert tone is not None
    assert accuracy is not None
    assert (tone.stale, accuracy.stale, accuracy.carried) == (True, False, True)


def test_evidence_of_settled_findings_is_kept() -> None:
    located = finding("tone").model_copy(update={"location": "line 3"})
    tone, *others = judged(0.5, 1, 1)
    scores = [tone.model_copy(update={"findings": (located,)}), *others]
    first = combined(RUBRIC, checks=PASSED, judged=scores, before=None)
    second = combined(RUBRIC, checks=PASSED, judged=judged(1, 1, 1), before=first)
    settled = second.get("tone")
    assert settled is not None
    assert (settled.findings, settled.evidence) == ((), ("line 3",))


@pytest.mark.parametrize(("worst_first", "cap"), [(True, 0.3), (False, 1.0)])
def test_a_blocker_behind_too_many_findings_is_kept_with_its_cap(
    worst_first: bool, cap: float
) -> None:
    tone, *others = judged(0.5, 1, 1)
    minor = finding("tone").model_copy(update={"severity": "suggestion"})
    many = tuple(minor.model_copy(update={"id": f"F{number}"}) for number in range(1, 61))
    first = [tone.model_copy(update={"findings": many}), *others]
    blocker = minor.model_copy(update={"id": "F99", "severity": "blocker"})
    second = [tone.model_copy(update={"findings": (blocker,)}), *others]
    before = combined(RUBRIC, checks=PASSED, judged=first, before=None)
    made = combined(
        RUBRIC, checks=PASSED, judged=second, before=before, worst_first=lambda: worst_first
    )
    kept = made.findings
    assert (len(kept), severity_cap(kept)) == (60, cap)
    assert [one.id for one in kept if one != blocker][:59] == [one.id for one in many][:59]


def test_an_evaluation_holds_short_words_of_a_finding() -> None:
    words = "word " * 8_000
    long = {"title": words, "detail": words, "fix": words}
    tone, *others = judged(0.5, 1, 1)
    scores = [tone.model_copy(update={"findings": (finding("tone").model_copy(update=long),)})]
    made = combined(RUBRIC, checks=PASSED, judged=[*scores, *others], before=None)
    (kept,) = made.findings
    assert kept.title.endswith("…")
    assert [len(kept.title), len(kept.detail), len(kept.fix)] == [300, 400, 400]


def test_a_question_asks_about_what_is_open_in_its_dimensions_alone() -> None:
    before = previous(0.7, 1, 1, open_in=["tone", "tests"]).evaluation
    asked = Question(output=BlobRef(hash="x"), asked=("tone",), before=before, changed=((1, 2),))
    assert [one.dimension for one in asked.findings] == ["tone"]
    assert asked.earlier == {"tone": "0.7, gap"}
