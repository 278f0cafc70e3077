"""Which try counts, what a trial cost, and whether another try is made."""

from decimal import Decimal

import pytest

from perdure.domain.experiments.plan import Tries
from perdure.domain.experiments.trials import Trial, Try, another_try, total_usd


def tried(score: float | None = 0.5, *, tokens: int = 10, calls: int = 1, **more: object) -> Try:
    fields: dict[str, object] = {"run": "r", "outcome": "best_effort", **more}
    return Try.model_validate({**fields, "score": score, "tokens": tokens, "model_calls": calls})


LOOP = Trial(number=0, arm="loop", entry=0, tries=(tried(tokens=100, calls=5),), ended=True)


@pytest.mark.parametrize(
    ("wanted", "made", "beside", "another"),
    [
        (None, [], None, True),
        (None, [tried()], None, False),
        (Tries(count=3), [tried(), tried()], None, True),
        (Tries(count=3), [tried()] * 3, None, False),
        (Tries(spend="same_tokens", of="loop"), [], LOOP, True),
        (Tries(spend="same_tokens", of="loop"), [tried(tokens=50)], LOOP, True),
        (Tries(spend="same_tokens", of="loop"), [tried(tokens=51)], LOOP, False),
        (Tries(spend="same_tokens", of="loop"), [tried(tokens=40), tried(tokens=30)], LOOP, False),
        (Tries(spend="same_tokens", of="loop"), [tried(tokens=30), tried(tokens=35)], LOOP, True),
        (Tries(spend="same_calls", of="loop"), [tried()] * 4, LOOP, True),
        (Tries(spend="same_calls", of="loop"), [tried()] * 5, LOOP, False),
        # What used nothing would be tried for ever.
        (Tries(spend="same_tokens", of="loop"), [tried(tokens=0)], LOOP, False),
        # The other arm left no trial: it was stopped.
        (Tries(spend="same_tokens", of="loop"), [tried()], None, False),
    ],
)
def test_another_try(
    wanted: Tries | None, made: list[Try], beside: Trial | None, another: bool
) -> None:
    assert another_try(wanted, made, beside) is another


def test_the_best_try_by_its_own_score_counts() -> None:
    tries = (tried(0.2, held_out=1.0), tried(0.9, held_out=0.0), tried(None), tried(0.9))
    chosen = Trial(number=0, arm="a", entry=0, tries=tries).chosen
    assert chosen is tries[1]


def test_a_trial_that_somebody_stopped_is_not_counted() -> None:
    stopped = tried(outcome="stopped")
    assert not Trial(number=0, arm="a", entry=0, tries=(stopped,), ended=True).counts
    assert Trial(number=0, arm="a", entry=0, tries=(tried(),), ended=True).counts
    assert not Trial(number=0, arm="a", entry=0, tries=(tried(),)).counts


@pytest.mark.parametrize("outcome", ["failed", "blocked", "no_output", "tool_misuse", "unanswered"])
def test_a_run_without_a_result_has_failed(outcome: str) -> None:
    assert tried(outcome=outcome).failed


def test_an_unknown_cost_makes_the_sum_unknown() -> None:
    assert total_usd([Decimal("0.1"), Decimal("0.2")]) == Decimal("0.3")
    assert total_usd([Decimal("0.1"), None]) is None
    assert total_usd([]) == 0


def test_a_failed_try_counts_only_where_all_failed() -> None:
    bare = tried(None, run="a", outcome="failed")
    own = tried(0.9, run="b", outcome="failed")
    fine = tried(None, run="c", held_out=0.8)
    assert chosen_of(bare, fine, own) == "c"
    assert chosen_of(bare, own) == "b"


def chosen_of(*tries: Try) -> str | None:
    chosen = Trial(number=0, arm="best", entry=0, tries=tries, ended=True).chosen
    return None if chosen is None else chosen.run
