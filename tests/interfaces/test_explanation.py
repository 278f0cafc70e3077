"""Why a run stopped, what would have changed it, and what more money would likely buy."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.run.result import Exhausted, Mark, RunResult
from perdure.domain.turns.records import IterationRecord
from perdure.interfaces.explanation import explain_run, gains, outlook


def record(
    index: int, score: float | None, cost: Decimal | None = Decimal("0.02")
) -> IterationRecord:
    return IterationRecord(index=index, score=score, cost_usd=cost)


def ended(*scores: float | None, **changes: object) -> RunResult:
    known = [score for score in scores if score is not None]
    best = Mark(iteration=1, score=max(known)) if known else None
    values = {
        "id": "r1",
        "kind": "refine",
        "outcome": "best_effort",
        "reason": "max_iterations",
        "explanation": "Over.",
        "best": best,
        "iteration_count": len(scores),
    }
    return RunResult.model_validate({**values, **changes})


@pytest.mark.parametrize(
    ("scores", "cost", "iterations", "gain", "told"),
    [
        ((), "0.02", None, None, "No iteration was completed"),
        ((0.5, 1.0), "0.02", 0, 0.0, "already 1.00"),
        ((0.5, 0.7), None, None, None, "price of the model is unknown"),
        ((None, None), "0.02", 5, None, "Nothing was scored."),
        ((0.5,), "0.02", 5, None, "no trend"),
        ((0.5, 0.6), "0.04", 2, 0.075, "Likely +0.07, to about 0.67"),
        ((0.5, 0.6), "0.20", 0, 0.0, "Not one iteration"),
        ((0.6, 0.6, 0.5), "0.02", 5, 0.0, "Likely no better score"),
        ((0.5, 0.6), "0", None, 0.1, "costs nothing"),
    ],
    ids=[
        "nothing done",
        "nothing missing",
        "unknown price",
        "unscored",
        "one score",
        "fading gains",
        "too dear",
        "no gains",
        "free",
    ],
)
def test_outlook(
    scores: tuple[float | None, ...],
    cost: str | None,
    iterations: int | None,
    gain: float | None,
    told: str,
) -> None:
    each = None if cost is None else Decimal(cost)
    records = [record(index, score, each) for index, score in enumerate(scores, start=1)]
    found = outlook(ended(*scores), records)
    assert (found.iterations, found.gain) == (iterations, gain)
    assert told in found.sentence


@given(
    st.lists(st.none() | st.floats(min_value=0, max_value=1), max_size=12),
    st.decimals(min_value=0, max_value=1, places=4),
)
def test_the_outlook_never_promises_more_than_is_missing(
    scores: list[float | None], cost: Decimal
) -> None:
    records = [record(index, score, cost) for index, score in enumerate(scores, start=1)]
    result = ended(*scores)
    found = outlook(result, records)
    if found.gain is not None:
        best = result.best.score if result.best else None
        assert 0 <= found.gain <= 1 - (best or 0) + 1e-4


def test_gains_are_counted_from_the_best_before() -> None:
    records = [record(1, 0.5), record(2, None), record(3, 0.7), record(4, 0.6), record(5, 0.8)]
    assert [round(gain, 6) for gain in gains(records)] == [0.2, 0.0, 0.1]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(outcome, reason) for outcome, reasons in REASONS.items() for reason in reasons],
)
def test_every_ending_has_an_explanation(outcome: str, reason: str) -> None:
    explained = explain_run(ended(0.5, 0.6, outcome=outcome, reason=reason), [record(1, 0.5)])
    assert explained.why == "Over."
    assert explained.would_change


def test_a_spent_budget_names_the_limit_with_its_figures() -> None:
    spent = Exhausted(dimension="cost", text="cost: 2.03 of 2 USD")
    spend = {"cost_usd": "2.03"}
    result = ended(0.5, outcome="out_of_budget", reason="cost", exhausted=spent, spend=spend)
    explained = explain_run(result, [record(1, 0.5)])
    assert explained.why == "Over. cost: 2.03 of 2 USD."
    assert "`budget.cost_usd` (cost: 2.03 of 2 USD)" in explained.would_change[0]


@pytest.mark.parametrize(
    ("spend", "text", "told"),
    [
        ({"tokens": 185_600}, "tokens: 192696 of 200000", ", with 7096 held for steps that then"),
        ({"tokens": 192_696}, "tokens: 192696 of 200000", "."),
        ({"cost_usd": "1.53"}, "cost: 2.03 of 2 USD", ", with 0.5 held for steps that then"),
        ({"cost_usd": None}, "cost: 2.03 of 2 USD", "."),
    ],
)
def test_what_a_limit_held_is_told_apart_from_what_was_spent(
    spend: dict[str, object], text: str, told: str
) -> None:
    spent = Exhausted(dimension=text.partition(":")[0], text=text)
    result = ended(0.5, outcome="out_of_budget", reason="cost", exhausted=spent, spend=spend)
    assert f"Over. {text}{told}" in explain_run(result, [record(1, 0.5)]).why


def test_figures_that_the_explanation_has_are_not_told_twice() -> None:
    text = "the evaluator used its share"
    spent = Exhausted(dimension="tokens", text=text)
    result = ended(0.5, reason="tokens", exhausted=spent, explanation=f"Over ({text}).")
    assert explain_run(result, [record(1, 0.5)]).why == f"Over ({text})."


def test_a_limit_without_figures_is_not_named_twice() -> None:
    spent = Exhausted(dimension="active_time", text="active_time")
    explained = explain_run(
        ended(None, outcome="deadline", reason="active_time", exhausted=spent), [record(1, None)]
    )
    assert explained.why == "Over."
    assert explained.would_change[0].startswith("A higher `budget.active_time`, given")


def test_open_findings_are_named_while_quality_is_missing() -> None:
    findings = ({"dimension": "tone", "title": "stiff"}, {"dimension": "tone", "title": "dry"})
    explained = explain_run(ended(0.5, open_findings=findings), [record(1, 0.5)])
    assert explained.would_change[-1] == "2 findings are open, in: tone."
    explained = explain_run(ended(0.5, open_findings=findings[:1]), [record(1, 0.5)])
    assert explained.would_change[-1] == "1 finding is open, in: tone."


def test_an_ended_run_is_told_how_to_go_on() -> None:
    records = (IterationRecord(index=1, score=0.5, state_ref="sha256:s"),)
    best = Mark(iteration=1, score=0.5)
    limited = RunResult(
        id="r",
        kind="refine",
        outcome="best_effort",
        reason="max_iterations",
        explanation="Done.",
        best=best,
    )
    told = explain_run(limited, records).would_change[-1]
    assert told.startswith("`perdure fork r --from-iteration 1 --set path=value`")
    assert "fork" not in " ".join(
        explain_run(limited, (IterationRecord(index=1, score=0.5),)).would_change
    )
    failed = limited.model_copy(update={"outcome": "failed", "reason": "model_error"})
    assert "`perdure retry r`" in explain_run(failed, records).would_change[-1]
