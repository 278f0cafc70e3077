"""What reviewers say, what is repaired for it, and which defects later workers are warned of."""

import json

import pytest
from pydantic import JsonValue

from perdure.domain.delegation.results import Defect
from perdure.domain.delegation.spec import CritiqueSettings
from perdure.domain.delegation.worker_review import (
    Critique,
    Reviews,
    keeps_repair,
    read_criteria,
    read_critique,
    repair_text,
    wants_critique,
    wants_repair,
)
from perdure.domain.llm.structured_replies import BadReply

SETTINGS = CritiqueSettings()
BAD = Defect(category="missing", title="No sources", fix="Name two", critical=True)
MINOR = Defect(category="format", title="No heading")


@pytest.mark.parametrize(
    ("reply", "score", "critical"),
    [
        ({"score": 0.7, "defects": []}, 0.7, 0),
        ({"score": 1, "defects": []}, 1.0, 0),
        ({"score": 0.4, "defects": [{"title": "x", "critical": True}]}, 0.4, 1),
        ({"score": 0.4, "defects": [{"title": "x", "severity": "critical"}]}, 0.4, 1),
        ({"score": 0.4, "defects": [{"detail": "x", "severity": "minor"}]}, 0.4, 0),
        ({"score": 0.4, "defects": ["x", "", {"fix": "no words"}]}, 0.4, 0),
        ({"score": 0.4, "mood": "fine"}, 0.4, 0),
    ],
)
def test_critiques_are_read(reply: dict[str, JsonValue], score: float, critical: int) -> None:
    found = read_critique(f"Here: ```json\n{json.dumps(reply)}\n```")
    assert isinstance(found, Critique)
    assert (found.score, len(found.critical)) == (score, critical)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON object"),
        ("It is good.", "no JSON object"),
        ('{"score": "high"}', 'score: found "high"'),
        ('{"score": true}', "score: found true"),
        ('{"score": 7}', "score: found 7"),
        ('{"score": NaN}', "NaN is a number that JSON does not know"),
        ('{"score": 1, "defects": [{"title": "x", "critical": true}]}', "yet 'x' is called"),
        ('{"score": 0.9, "defects": [{"title": "x"', "cut off before its end"),
        ('{"score": 0.9, "defects": [], "accept": false}', "'accept' speaks against"),
        ('{"score": 0.9, "defects": [], "verdict": "reject"}', "'verdict' speaks against"),
        ('{"score": 0.9, "status": "needs work"}', "'status' speaks against"),
        ('{"score": 0.9, "defects": []}\nBLOCKER: it lies', "stands beside the JSON"),
        ('Critical: it lies.\n{"score": 0.9}', "stands beside the JSON"),
    ],
)
def test_what_is_no_critique_is_no_score(text: str, said: str) -> None:
    found = read_critique(text)
    assert isinstance(found, BadReply) and said in found.problems[0]


@pytest.mark.parametrize(
    ("defects", "repairs", "wanted"),
    [
        ((BAD,), 0, True),
        ((BAD,), 1, True),
        ((BAD,), 2, False),
        ((MINOR,), 0, False),
        ((), 0, False),
    ],
)
def test_critical_defects_get_two_repairs(
    defects: tuple[Defect, ...], repairs: int, wanted: bool
) -> None:
    critique = Critique(score=0.5, defects=defects)
    assert wants_repair(critique, repairs=repairs, settings=SETTINGS) is wanted


@pytest.mark.parametrize(("after", "kept"), [(0.4, False), (0.5, True), (0.6, True)])
def test_a_worse_repair_is_discarded(after: float, kept: bool) -> None:
    assert keeps_repair(Critique(score=0.5), Critique(score=after)) is kept


def test_only_what_has_an_acceptance_is_reviewed() -> None:
    assert wants_critique("two sources", SETTINGS)
    assert not wants_critique("  ", SETTINGS)
    assert not wants_critique("two sources", CritiqueSettings(enabled=False))


def test_a_repair_is_told_the_critical_defects_alone() -> None:
    text = repair_text(Critique(score=0.3, defects=(BAD, MINOR)))
    assert "- No sources Fix: Name two" in text
    assert "No heading" not in text


def test_recurring_categories_become_pitfalls() -> None:
    reviews = Reviews()
    assert reviews.mean is None
    again = BAD.model_copy(update={"title": "No dates"})
    for piece, defects in (("a", (BAD, again)), ("b", (MINOR,)), ("c", (again,))):
        reviews = reviews.after(piece, Critique(score=0.4, defects=defects))
    assert reviews.recurring == ("missing: No dates",)


def test_the_mean_takes_the_newest_score_of_each_piece() -> None:
    reviews = Reviews()
    for piece, score in (("a", 0.2), ("b", 0.6), ("a", 0.8)):
        reviews = reviews.after(piece, Critique(score=score))
    assert reviews.mean == 0.7


def test_the_poor_pieces_are_named_the_worst_first() -> None:
    reviews = Reviews()
    for piece, score in (("a", 0.5), ("b", 0.6), ("c", 0.2)):
        reviews = reviews.after(piece, Critique(score=score))
    assert reviews.below(0.6) == ("c (0.20)", "a (0.50)")
    assert reviews.without({"c", "x"}).below(0.6) == ("a (0.50)",)


def test_reviews_are_bounded() -> None:
    reviews = Reviews()
    for number in range(1_000):
        defect = Defect(category=f"kind {number}", title="t" * 500)
        reviews = reviews.after(f"w{number}", Critique(score=0.5, defects=(defect,)))
    assert len(reviews.model_dump_json()) < 16 * 1024


def answer(*items: tuple[int, bool, str]) -> str:
    rows = [{"number": n, "met": met, "missing": said} for n, met, said in items]
    return json.dumps({"criteria": rows})


def test_criteria_that_are_not_met_are_named_with_what_is_missing() -> None:
    criteria = ("two sources", "a table", "a date")
    text = answer((1, True, ""), (2, False, "no columns"), (3, False, ""))
    assert read_criteria(text, criteria) == ("a table (no columns)", "a date")
    assert read_criteria(answer((1, True, ""), (2, True, ""), (3, True, "")), criteria) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (answer((1, True, "")), "No answer for criterion 2"),
        (answer(), "No answer for criterion 1, 2"),
        ("All met.", "no JSON object"),
        (answer((1, True, "the whole second half"), (2, True, "")), "answers no criterion"),
        (
            '{"criteria": [{"number": 1, "met": "yes"}, {"number": 2, "met": true}]}',
            "answers no criterion",
        ),
    ],
)
def test_silence_about_a_criterion_is_no_answer(text: str, said: str) -> None:
    found = read_criteria(text, ("two sources", "a table"))
    assert isinstance(found, BadReply) and said in found.problems[0]
