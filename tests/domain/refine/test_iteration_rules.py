"""Folding drafts into the state: the best, the newest, what was seen, what was spent and saved."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.domain.budget.accounting import Budget, BudgetLimits, settle
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.foundation.tokens import TokenSizes
from perdure.domain.llm.usage import AttemptTotals, Usage
from perdure.domain.refine.iteration_rules import (
    cut_decision,
    end_detail,
    facts_of,
    note_draft,
    quality_met,
    record_of,
    rescore_best,
)
from perdure.domain.refine.result import savings_of
from perdure.domain.refine.spec import RefineSettings
from perdure.domain.refine.state import BestDraft, Draft, RefineState
from perdure.domain.refine.stop_rules import decide
from perdure.domain.refine.token_savings import economized
from perdure.domain.run.cost_report import charged
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUBRIC = Rubric.model_validate(
    [{"name": "words", "evaluator": {"check": "contains", "all": ["oak", "elm"]}}]
)
SCORES = st.lists(st.none() | st.integers(0, 10).map(lambda tenth: tenth / 10), max_size=12)


def new_state() -> RefineState:
    return RefineState(started_at=NOW, budget=Budget(limits=BudgetLimits()))


def evaluated(score: float) -> Evaluation:
    return Evaluation(dimensions=(DimensionScore(name="words", score=score, source="check"),))


def take(state: RefineState, score: float | None, text: str) -> None:
    """One iteration with an output; without a score its evaluator failed."""
    state.iteration += 1
    ref = BlobRef(hash=f"sha256:{text}", bytes=9, tokens=TokenSizes(prose=30))
    state.draft = Draft(output=ref, output_hash=text, pieces=[ref], began=state.budget.spent)
    if score is None:
        state.draft.failure, state.draft.failure_reason = "it broke", "evaluator_failed"
    else:
        state.draft.evaluation, state.draft.kind = evaluated(score), "full"
    note_draft(state, RUBRIC)


@settings(deadline=None)
@given(SCORES)
def test_the_best_is_the_highest_and_of_equal_ones_the_later(scores: list[float | None]) -> None:
    state = new_state()
    for number, score in enumerate(scores, start=1):
        take(state, score, f"text {number}")
    scored = [(score, n) for n, score in enumerate(scores, start=1) if score is not None]
    if scored:
        assert state.kept is not None
        assert (state.kept.score, state.kept.iteration) == max(scored)
        assert state.newest is not None
        assert state.newest.iteration == scored[-1][1]
        assert state.budget.complete_output
    assert (state.kept is None) == (not scores)
    assert state.budget.spent.iterations == len(scores)


def test_an_unscored_output_is_kept_while_there_is_no_other() -> None:
    state = new_state()
    take(state, None, "a")
    assert state.kept is not None
    assert (state.kept.score, state.newest, state.last_error) == (None, None, "it broke")
    take(state, 0.0, "b")
    assert state.kept.iteration == 2
    assert state.failures_in_a_row == 0


def test_a_partial_best_leaves_the_reserve_closed() -> None:
    state = new_state()
    state.iteration = 1
    state.draft = Draft(pieces=[BlobRef(hash="sha256:half")], partial=True)
    note_draft(state, RUBRIC)
    assert state.kept is not None
    assert state.kept.partial
    assert not state.budget.complete_output


def test_an_output_that_came_back_is_repeated() -> None:
    state = new_state()
    for text, repeated in [("a", False), ("b", False), ("a", True)]:
        take(state, 0.5, text)
        assert state.draft.repeated is repeated
    assert state.seen.hashes == ("b", "a")


def test_a_record_has_what_was_spent_since_the_iteration_began() -> None:
    state = new_state()
    used = AttemptTotals(attempts=1, usage=Usage(input_tokens=10), cost_usd=Decimal("0.5"))
    state.budget = settle(state.budget, "before", used)
    take(state, 0.5, "a")
    lost = AttemptTotals(
        attempts=2, unconfirmed=Usage(output_tokens=7), unconfirmed_cost_usd=Decimal(1)
    )
    state.budget = settle(settle(state.budget, "x", used), "y", lost)
    decision = decide(facts_of(state, settings=RefineSettings(), rubric=RUBRIC, now=NOW))
    record = record_of(
        state, IterationRecord(index=1), decision=decision, rubric=RUBRIC, settings=RefineSettings()
    )
    assert record.usage == Usage(input_tokens=10, output_tokens=7)
    assert (record.cost_usd, record.model_calls) == (Decimal("1.5"), 3)


@pytest.mark.parametrize(
    ("outcome", "reason", "decision"),
    [
        ("stopped", "stopped", "stop"),
        ("deadline", "wall_time", "abort_timeout"),
        ("out_of_budget", "tokens", "abort_budget"),
        ("unanswered", "gate_expired", "stop"),
        ("failed", "model_error", "abort_error"),
    ],
)
def test_what_cuts_an_iteration_short_is_its_decision(
    outcome: str, reason: str, decision: str
) -> None:
    ending = Ending.model_validate({"outcome": outcome, "reason": reason})
    assert cut_decision(ending).decision == decision


def test_a_cut_by_the_budget_decides_even_where_the_reserve_would_open() -> None:
    state = new_state()
    take(state, 0.9, "a")
    detail = "tokens: 95 of 90"
    state.draft.cut = Ending(outcome="out_of_budget", reason="tokens", detail=detail)
    decision = decide(facts_of(state, settings=RefineSettings(), rubric=RUBRIC, now=NOW))
    assert (decision.decision, decision.reason) == ("abort_budget", "tokens")
    assert end_detail(state, decision, wall_time=0) == detail


def test_an_amended_rubric_scores_the_best_anew() -> None:
    state = new_state()
    take(state, 0.9, "a")
    rescore_best(state, evaluated(0.2), RUBRIC, demands="d")
    assert state.kept is not None
    assert state.best is not None
    assert (state.kept.score, state.best.score, state.trajectory.latest) == (0.2, 0.2, 0.2)
    rescore_best(state, None, RUBRIC, demands="d")
    assert (state.kept.score, state.newest) == (None, None)


@settings(deadline=None)
@given(st.lists(st.integers(1, 500), min_size=1, max_size=8))
def test_savings_grow_with_what_a_conversation_would_have_resent(prompts: list[int]) -> None:
    state = new_state()
    for number, tokens in enumerate(prompts):
        state.draft = Draft(sent={"executing": _sent(state)})
        account = AttemptTotals(attempts=1, usage=Usage(input_tokens=tokens))
        state.by_phase = charged(state.by_phase, "executing", account)
        state.budget = settle(state.budget, str(number), account)
        state.draft.output = BlobRef(hash="sha256:x", tokens=TokenSizes(prose=10))
        state.economy = economized(state, RUBRIC, threshold=0.8)
    saved = savings_of(state)
    assert saved.input_tokens == sum(prompts)
    history = [prompts[0] + 10 * n for n in range(len(prompts))]
    naive = sum(max(told, sent) for told, sent in zip(history, prompts, strict=True))
    assert saved.naive_input_tokens == naive


def _sent(state: RefineState) -> int:
    part = state.by_phase.get("executing")
    return part.usage.prompt_tokens if part else 0


LIST = {"pattern": "checklist"}
TREE = {"termination": {"type": "confidence", "threshold": 0.95}}
OPINION = {"name": "tone", "evaluator": {"judge": {}}}
DECIDING = {"name": "words", "decides": True, "evaluator": {"check": "contains", "all": ["oak"]}}
PLAIN = {**DECIDING, "decides": False}


@pytest.mark.parametrize(
    ("settings", "rubric", "scores", "overall", "met"),
    [
        pytest.param({}, [PLAIN, OPINION], (1.0, 0.9), 0.95, True, id="score"),
        pytest.param({}, [PLAIN, OPINION], (0.5, 0.5), 0.5, False, id="not reached"),
        pytest.param({}, [PLAIN, OPINION], (0.5, None), None, False, id="unscored"),
        pytest.param({}, [DECIDING, OPINION], (1.0, 0.0), 0.5, True, id="deciding pass"),
        pytest.param({}, [DECIDING, OPINION], (0.5, 0.6), 0.55, False, id="deciding fail"),
        pytest.param(TREE, [PLAIN, OPINION], (1.0, 0.7), 0.85, False, id="threshold of the tree"),
        pytest.param(LIST, [PLAIN, OPINION], (0.9, 1.0), 0.95, False, id="a list, one item fails"),
        pytest.param(LIST, [PLAIN, OPINION], (1.0, 0.8), 0.9, True, id="a list, all pass"),
    ],
)
def test_quality_is_judged_of_what_is_returned(
    settings: dict[str, object],
    rubric: list[object],
    scores: tuple[float | None, ...],
    overall: float | None,
    met: bool,
) -> None:
    dimensions = tuple(
        DimensionScore(name=name, score=score, source=source)
        for name, score, source in zip(("words", "tone"), scores, ("check", "judge"), strict=True)
    )
    version = BestDraft(
        iteration=1,
        output=BlobRef(hash="sha256:a", bytes=1, tokens=TokenSizes()),
        score=overall,
        evaluation=Evaluation(dimensions=dimensions),
    )
    given = RefineSettings.model_validate(settings)
    assert quality_met(given, Rubric.model_validate(rubric), version) is met


def test_nothing_to_return_meets_no_quality() -> None:
    assert not quality_met(RefineSettings(), RUBRIC, None)
