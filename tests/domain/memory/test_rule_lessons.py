"""What a run teaches by rule: each border of each rule, and that nothing depends on luck."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import starmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.memory.deduplication import same_lesson
from perdure.domain.memory.entries import MEMORY_ENTRY, Learning, may_enter
from perdure.domain.memory.rule_lessons import (
    TEXT_CHARACTERS,
    EndedRun,
    RunHistory,
    course_of,
    entry_id,
    episode_of,
    event_of,
    is_worth_asking,
    lessons_of,
)
from perdure.domain.turns.records import DimensionRecord, IterationRecord

ENDED = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)


def finding(number: int, severity: str = "important", fix: str = "") -> dict[str, object]:
    return {
        "id": f"F{number}",
        "severity": severity,
        "dimension": "tone",
        "title": f"defect {number}",
        "fix": fix,
    }


def record(
    index: int, score: float | None, findings: Sequence[dict[str, object]] = (), **tones: float
) -> IterationRecord:
    dimensions = {name: DimensionRecord(score=at, source="judge") for name, at in tones.items()}
    return IterationRecord.model_validate(
        {"index": index, "score": score, "findings": tuple(findings), "dimensions": dimensions}
    )


def ended(outcome: Outcome = "accepted", **facts: object) -> EndedRun:
    return EndedRun.model_validate(
        {
            "id": "refine-bottle-1a2b3c",
            "kind": "refine",
            "goal": "Write a product text.",
            "category": "marketing",
            "outcome": outcome,
            "reason": "quality_met",
            "ended_at": ENDED,
            **facts,
        }
    )


def course(*records: IterationRecord, **facts: object) -> RunHistory:
    return RunHistory(run=ended(**facts), records=records)  # type: ignore[arg-type]


def scores(*values: float | None) -> RunHistory:
    return course(*(record(n, value) for n, value in enumerate(values, start=1)))


def rules(of: RunHistory) -> list[tuple[str, float]]:
    return [(lesson.sort, lesson.confidence) for lesson in lessons_of(of)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param((), [], id="nothing"),
        pytest.param((0.9,), [], id="one"),
        pytest.param((0.9, 0.8), [], id="a fall of exactly 0.1"),
        pytest.param((0.9, 0.799999999), [("anti_pattern", 0.7)], id="just over"),
        pytest.param((0.3, 0.2), [], id="exactly 0.1 in floats that are not"),
        pytest.param((0.9, None, 0.5), [("anti_pattern", 0.7)], id="over an unscored one"),
        pytest.param((0.5, 0.9), [], id="a rise"),
        pytest.param((0.9, 0.5, 0.9, 0.1), [("anti_pattern", 0.7)] * 2, id="two falls"),
        pytest.param((0.9, 0.91), [], id="two that are flat"),
        pytest.param((0.5, 0.9, 0.92), [("heuristic", 0.5)], id="flat by exactly 0.02"),
        pytest.param((0.5, 0.9, 0.920000001), [], id="not quite flat"),
        pytest.param((0.5, 0.92, 0.9), [("heuristic", 0.5)], id="flat downwards"),
        pytest.param((0.9, None, 0.9), [], id="two scored of three"),
        pytest.param(
            (0.9, 0.5, 0.5), [("anti_pattern", 0.7), ("heuristic", 0.5)], id="fell, then flat"
        ),
    ],
)
def test_scores_teach(values: tuple[float | None, ...], expected: list[tuple[str, float]]) -> None:
    assert rules(scores(*values)) == expected


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        pytest.param([[]], 0, id="none"),
        pytest.param([[finding(1, "blocker")]], 0, id="once"),
        pytest.param([[finding(1, "blocker")], []], 0, id="settled"),
        pytest.param([[finding(1, "blocker")], [finding(2, "blocker")]], 0, id="another"),
        pytest.param([[finding(1, "blocker")]] * 2, 1, id="twice"),
        pytest.param([[finding(1, "important")]] * 2, 0, id="no blocker"),
        pytest.param([[finding(1, "important")], [finding(1, "blocker")]], 0, id="became one"),
        pytest.param([[finding(1, "blocker"), finding(2, "blocker")]] * 3, 2, id="two of them"),
        pytest.param([[finding(1, "blocker"), finding(1, "blocker")]], 0, id="named twice"),
        pytest.param([[{"severity": "blocker"}]] * 2, 0, id="without a title"),
        pytest.param([[{"severity": "?", "title": "x"}]] * 2, 0, id="unreadable"),
    ],
)
def test_blockers_teach(rounds: list[list[dict[str, object]]], expected: int) -> None:
    told = course(*(record(n, None, found) for n, found in enumerate(rounds, start=1)))
    assert rules(told) == [("anti_pattern", 0.6)] * expected


@pytest.mark.parametrize(
    ("rounds", "asks"),
    [
        pytest.param([[finding(1), finding(2), finding(3)]], False, id="one iteration"),
        pytest.param([[finding(1)], [finding(2)]], False, id="two findings"),
        pytest.param([[finding(1), finding(2)], [finding(3)]], True, id="three over two"),
        pytest.param([[finding(1), finding(2)], [finding(1)]], False, id="counted once"),
    ],
)
def test_when_a_model_is_asked(rounds: list[list[dict[str, object]]], asks: bool) -> None:
    told = course(*(record(n, 0.5, found) for n, found in enumerate(rounds, start=1)))
    assert is_worth_asking(told) is asks


def test_a_fall_names_what_fell_and_what_was_new() -> None:
    before = record(1, 0.8, [finding(1)], tone=0.9, facts=0.7)
    after = record(2, 0.6, [finding(1), finding(2)], tone=0.4, facts=0.8)
    (lesson,) = lessons_of(course(before, after))
    assert lesson.text == (
        "A revision of “Write a product text.” made it worse (tone). Keep what had passed while "
        "fixing the rest. New then: defect …."
    )
    assert lesson.category == "marketing"
    assert [origin.run for origin in lesson.origins] == ["refine-bottle-1a2b3c"]


def test_a_blocker_names_its_cure() -> None:
    stuck = [finding(1, "blocker", fix="name the material")]
    (lesson,) = lessons_of(course(record(1, 0.3, stuck), record(2, 0.3, stuck)))
    assert lesson.text == (
        "In “Write a product text.” the blocker “defect …” (tone) stayed open through several "
        "iterations. Deal with it first. What helps: name the material"
    )


@pytest.mark.parametrize(
    ("title", "fix", "said"),
    [
        pytest.param(
            "{} words, limit 25", "Use at most 25 words.", "Use at most 25 words", id="its fix"
        ),
        pytest.param("{} words, limit 25", "", "… words, limit …", id="no fix"),
        pytest.param("1,{}.5 s ({}%), at {}:30", "", "… s (…%), at …", id="forms of figures"),
        pytest.param("No UTF-8, sha256", "Encode it.", "No UTF-8, sha256", id="names"),
    ],
)
def test_a_lesson_of_another_run_is_the_same_whatever_was_measured(
    title: str, fix: str, said: str
) -> None:
    def taught(measured: str) -> Sequence[Learning]:
        found = {**finding(1, "blocker", fix), "title": title.replace("{}", measured)}
        scored = ((0.9, []), (0.5, [found]), (0.5, [found]))
        return lessons_of(course(*(record(n, *one) for n, one in enumerate(scored, start=1))))

    first, second = taught("32"), taught("417")
    assert [lesson.sort for lesson in first] == ["anti_pattern", "heuristic", "anti_pattern"]
    assert all(starmap(same_lesson, zip(first, second, strict=True)))
    assert f"New then: {said}." in first[0].text
    assert f"Still open: {said}." in first[1].text


def test_a_lesson_does_not_count_the_findings_that_it_leaves_out() -> None:
    texts = [
        lessons_of(course(record(1, 0.9), record(2, 0.5, [finding(n) for n in range(many)])))
        for many in (4, 5)
    ]
    assert [lesson.text.endswith("; defect … and more.") for (lesson,) in texts] == [True, True]


@pytest.mark.parametrize(
    ("told", "text"),
    [
        pytest.param(
            course(
                record(1, 0.6, [finding(1, fix="say steel")], tone=0.6),
                record(2, 0.9, tone=0.9),
                best_iteration=2,
                best_score=0.9,
            ),
            "From 0.60 to 0.90 in iteration 2 of 2 (tone 0.60 → 0.90). What helped: say steel.",
            id="improved",
        ),
        pytest.param(
            course(record(1, 0.9), best_iteration=1, best_score=0.9),
            "The first version was the best, at 0.90.",
            id="at once",
        ),
        pytest.param(course(record(1, None), best_iteration=1), "", id="unscored"),
        pytest.param(course(), "", id="nothing written"),
    ],
)
def test_an_episode_says_what_worked(told: RunHistory, text: str) -> None:
    assert episode_of(told).text == text


@pytest.mark.parametrize("outcome", ["accepted", "best_effort", "regressed", "stopped"])
def test_only_accepted_runs_may_enter_others(outcome: Outcome) -> None:
    told = course(record(1, 0.9), record(2, 0.5), outcome=outcome)
    written = [*lessons_of(told), episode_of(told)]
    assert len(written) == 2
    assert {may_enter(entry) for entry in written} == {outcome == "accepted"}


def test_records_that_the_store_lacks_are_taken_from_the_run() -> None:
    stored = [record(1, 0.4), record(2, 0.1)]
    told = course_of(ended(unwritten=(record(2, 0.5), record(3, 0.6))), stored)
    assert [(item.index, item.score) for item in told.records] == [(1, 0.4), (2, 0.5), (3, 0.6)]


FINDINGS = st.lists(
    st.builds(
        finding,
        st.integers(0, 5),
        st.sampled_from(["blocker", "important", "suggestion", "odd"]),
        st.text(max_size=400),
    ),
    max_size=6,
)
COURSES = st.lists(st.tuples(st.none() | st.floats(0, 1), FINDINGS), max_size=12).map(
    lambda rounds: course(*(record(n, *told) for n, told in enumerate(rounds, start=1)))
)


@given(COURSES)
def test_whatever_happened_the_lessons_are_few_short_and_the_same_again(told: RunHistory) -> None:
    lessons = lessons_of(told)
    assert lessons == lessons_of(told)
    assert len(lessons) <= 7
    assert len({lesson.id for lesson in lessons}) == len(lessons)
    entries = [*lessons, episode_of(told), event_of(told.run)]
    for entry in entries:
        assert len(entry.text) <= TEXT_CHARACTERS
        assert MEMORY_ENTRY.validate_json(entry.model_dump_json()) == entry


@given(st.lists(st.text(max_size=8), min_size=1, max_size=4))
def test_an_id_depends_on_all_its_parts(parts: list[str]) -> None:
    assert entry_id(*parts) == entry_id(*parts)
    assert entry_id(*parts) != entry_id(*parts, "more")
