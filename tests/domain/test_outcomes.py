"""The closed table of outcomes and reasons."""

import typing

import pytest

from perdure.domain.outcomes import REASONS, Outcome, ended, explain, lifecycle

PAIRS = [(outcome, reason) for outcome, reasons in REASONS.items() for reason in reasons]


def test_every_outcome_has_reasons() -> None:
    assert set(REASONS) == set(typing.get_args(Outcome))
    assert len(PAIRS) == 46


@pytest.mark.parametrize(("outcome", "reason"), PAIRS, ids="/".join)
def test_every_reason_has_a_sentence(outcome: Outcome, reason: str) -> None:
    sentence = explain(outcome, reason)
    assert sentence[0].isupper()
    assert sentence.endswith(".")
    assert explain(outcome, reason, "2 of 3").endswith(" (2 of 3).")


def test_an_unknown_reason_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"outcome stopped has no reason 'bored'; it has stopped"):
        ended("stopped", "bored")


@pytest.mark.parametrize(
    ("outcome", "stands"),
    [
        ("accepted", "completed"),
        ("best_effort", "completed"),
        ("out_of_budget", "completed"),
        ("unanswered", "completed"),
        ("stopped", "stopped"),
        ("failed", "failed"),
        ("blocked", "failed"),
    ],
)
def test_lifecycle(outcome: Outcome, stands: str) -> None:
    assert lifecycle(outcome) == stands
