"""From a stored state the loop decides as it would have: for any scores, at any iteration."""

from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.domain.budget.accounting import Budget, BudgetLimits, Spend
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.refine.iteration_rules import facts_of, note_draft, record_of
from perdure.domain.refine.resume import (
    between_iterations,
    cleared,
    completed,
    forgiving,
    refine_fork,
)
from perdure.domain.refine.spec import RefineSettings, RefineSpec
from perdure.domain.refine.state import Draft, RefineState, SingleAnswer
from perdure.domain.refine.stop_rules import Decision, decide
from perdure.domain.run.result import Origin
from perdure.domain.run.resume import as_stored
from perdure.domain.turns.guidance import PendingInput
from perdure.domain.turns.records import IterationRecord

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUBRIC = Rubric.model_validate(
    [{"name": "words", "evaluator": {"check": "contains", "all": ["oak", "elm"]}}]
)
OTHER = Rubric.model_validate(
    [{"name": "words", "evaluator": {"check": "contains", "all": ["fir"]}}]
)
ORIGIN = Origin(run="a", iteration=1)
SCRIPT = st.lists(
    st.tuples(
        st.none() | st.integers(0, 10).map(lambda tenth: tenth / 10), st.sampled_from("abcd")
    ),
    min_size=2,
    max_size=9,
)


def _new() -> RefineState:
    return RefineState(started_at=NOW, budget=Budget(limits=BudgetLimits()))


def _begin(state: RefineState) -> None:
    state.iteration += 1
    state.turning = True
    state.draft = Draft(began=state.budget.spent)
    state.notes, state.control.guidance = list(state.control.guidance), []


def _iterate(state: RefineState, score: float | None, text: str, rules: RefineSettings) -> Decision:
    """One whole iteration: begun, written, folded, decided, recorded."""
    _begin(state)
    ref = BlobRef(hash=f"sha256:{text}", bytes=9)
    draft = state.draft
    draft.output, draft.output_hash, draft.pieces = ref, text, [ref]
    if score is None:
        draft.failure, draft.failure_reason = "it broke", "evaluator_failed"
    else:
        scored = DimensionScore(name="words", score=score, source="check")
        draft.evaluation, draft.kind = Evaluation(dimensions=(scored,)), "full"
    state.turning = False
    note_draft(state, RUBRIC)
    decision = decide(facts_of(state, settings=rules, rubric=RUBRIC, now=NOW))
    base = IterationRecord(index=state.iteration)
    record = record_of(state, base, decision=decision, rubric=RUBRIC, settings=RefineSettings())
    state.records = [*state.records, record]
    return decision


@settings(deadline=None)
@given(
    script=SCRIPT,
    at=st.integers(1, 8),
    begun=st.booleans(),
    rules=st.builds(
        RefineSettings,
        max_iterations=st.integers(1, 9),
        improvement_threshold=st.none() | st.just(0.05),
        compare_with=st.sampled_from(["previous", "best"]),
    ),
)
def test_a_resumed_run_decides_as_the_run_itself(
    script: list[tuple[float | None, str]], at: int, begun: bool, rules: RefineSettings
) -> None:
    at = min(at, len(script) - 1)
    whole = _new()
    for score, text in script[:at]:
        _iterate(whole, score, text, rules)
    ahead = whole.model_copy(deep=True)
    if begun:
        _begin(ahead)
    stored = as_stored(between_iterations(ahead, ended=not begun))
    again = completed(RefineState.model_validate(stored), whole.records)
    assert (again.kept, again.newest, again.seen) == (whole.kept, whole.newest, whole.seen)
    for score, text in script[at:]:
        expected = _iterate(whole, score, text, rules)
        assert _iterate(again, score, text, rules) == expected
        assert again.trajectory == whole.trajectory
    assert (again.best, again.last, again.iteration) == (whole.best, whole.last, whole.iteration)


def test_what_the_begun_iteration_took_along_is_told_again() -> None:
    state = _new()
    state.control.guidance = ["be brief"]
    state.turn.unread = [PendingInput(text="also fir", by="me")]
    _begin(state)
    state.budget = state.budget.model_copy(update={"spent": Spend(tokens=70)})
    stored = between_iterations(state)
    assert stored.control.guidance == ["be brief"]
    assert [given.text for given in stored.control.inputs] == ["also fir"]
    assert (stored.iteration, stored.turning, stored.budget.spent) == (0, False, Spend())


def _spec(rubric: Rubric, **more: object) -> RefineSpec:
    told = {"kind": "refine", "goal": "trees", "rubric": rubric, "refine": more}
    return RefineSpec.model_validate(told)


def test_a_fork_under_the_same_rubric_scores_nothing_anew() -> None:
    state = _new().model_copy(
        update={"rubric": RUBRIC, "answer_only": SingleAnswer(kind="read_only", why="asks")}
    )
    fork = refine_fork(state, _spec(RUBRIC), before=RUBRIC, now=NOW, origin=ORIGIN)
    assert (fork.control.rubric, fork.rubric, fork.answer_only) == (None, None, None)
    changed = refine_fork(state, _spec(OTHER), before=RUBRIC, now=NOW, origin=ORIGIN)
    assert Rubric.model_validate(changed.control.rubric).digest == OTHER.digest


def test_lost_iterations_are_given_back() -> None:
    assert forgiving(_spec(RUBRIC, max_iterations=3), 2).refine.max_iterations == 5
    assert forgiving(_spec(RUBRIC, max_iterations=999), 2).refine.max_iterations == 1_000
    failed = _new().model_copy(update={"failures_in_a_row": 2, "tool_loop": "critical"})
    assert (cleared(failed).failures_in_a_row, cleared(failed).tool_loop) == (0, "none")
