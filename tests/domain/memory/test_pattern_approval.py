"""How a pattern becomes a skill: its name, what it tells, and what never enters it."""

from datetime import UTC, datetime, timedelta

import pytest

from perdure.domain.evaluation.outcomes import Outcome
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.memory.entries import Episode, Origin, Pattern, may_enter
from perdure.domain.memory.patterns import (
    EPISODES_TOLD,
    episodes_worth_telling,
    skill_of,
    suggested_name,
)

NOW = datetime(2026, 3, 2, tzinfo=UTC)
RUNS: list[Outcome] = ["accepted", "accepted", "regressed"]


def pattern(sort: str = "category", *subject: str) -> Pattern:
    return Pattern.model_validate(
        {
            "kind": "pattern",
            "id": "p1",
            "sort": sort,
            "subject": subject or ("code",),
            "category": "code",
            "text": "“code” came up 3 times.",
            "seen": 3,
            "created": NOW,
            "origins": [Origin(run=f"r{n}", outcome=outcome) for n, outcome in enumerate(RUNS)],
        }
    )


def episode(
    number: int, category: str = "code", outcome: Outcome = "accepted", score: float = 0.9
) -> Episode:
    return Episode(
        kind="episode",
        id=f"e{number}",
        category=category,
        text=f"Way {number}.",
        goal=f"Goal {number}",
        outcome=outcome,
        best_score=score,
        created=NOW + timedelta(hours=number),
        origins=(Origin(run=f"run-{number}", outcome=outcome),),
    )


@pytest.mark.parametrize(
    ("sort", "subject", "name"),
    [
        pytest.param("category", ("Code Review!",), "code-review", id="category"),
        pytest.param("hour", ("code", "09:00 UTC"), "code-at-09-00-utc", id="hour"),
        pytest.param("pair", ("code", "docs"), "code-then-docs", id="pair"),
        pytest.param("category", ("写作",), "写作", id="other letters"),
        pytest.param("category", ("!!",), "p1", id="no letters"),
        pytest.param("category", ("x" * 200,), "x" * 60, id="long"),
    ],
)
def test_a_name_is_made_of_the_subject(sort: str, subject: tuple[str, ...], name: str) -> None:
    assert suggested_name(pattern(sort, *subject)) == name


def test_only_accepted_runs_of_its_categories_are_told_the_best_first() -> None:
    told = episodes_worth_telling(
        pattern("pair", "code", "docs"),
        [
            episode(1),
            episode(2, "docs", score=0.95),
            episode(3, "other"),
            episode(4, outcome="best_effort"),
            episode(5, "Code"),
        ],
    )
    assert [item.id for item in told] == ["e2", "e5", "e1"]


def test_a_goal_that_went_the_same_way_is_told_once_and_only_some_are() -> None:
    same = [episode(n).model_copy(update={"goal": "g", "text": "t"}) for n in range(4)]
    assert len(episodes_worth_telling(pattern(), same)) == 1
    assert len(episodes_worth_telling(pattern(), [episode(n) for n in range(30)])) == EPISODES_TOLD


def test_the_skill_says_where_it_comes_from() -> None:
    skill = skill_of(pattern(), [episode(1)], name=None, by="ann", now=NOW)
    assert (skill.name, skill.categories, skill.source) == (
        "code",
        ("code",),
        "pattern p1, approved by ann",
    )
    assert skill.effectiveness == pytest.approx(2 / 3)
    assert [origin.run for origin in skill.origins] == ["run-1"]
    assert may_enter(skill)
    assert skill.text.splitlines()[-1] == "- Goal 1 (0.90): Way 1."


def test_a_name_that_a_person_chose_is_taken() -> None:
    assert skill_of(pattern(), [episode(1)], name="mine", by="ann", now=NOW).name == "mine"


@pytest.mark.parametrize(
    "episodes",
    [
        pytest.param([], id="none"),
        pytest.param([episode(1, "other")], id="of other work"),
        pytest.param([episode(1, outcome="failed")], id="not accepted"),
    ],
)
def test_without_anything_that_worked_there_is_no_skill(episodes: list[Episode]) -> None:
    with pytest.raises(NotAllowed, match="No accepted run of code says what worked"):
        skill_of(pattern(), episodes, name=None, by="ann", now=NOW)
