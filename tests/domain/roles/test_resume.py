"""From where a run of roles is taken up again."""

from datetime import UTC, datetime

from perdure.domain.budget.accounting import Budget, BudgetLimits, Spend
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.roles.resume import between_iterations, cleared, completed, last_state
from perdure.domain.roles.state import Review, RoleState, StageDone
from perdure.domain.run.resume import as_stored
from perdure.domain.turns.entries import StageShown
from perdure.domain.turns.records import IterationRecord, StageRecord, VerdictRecord
from perdure.domain.turns.turn import Ending

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def done(name: str, status: str) -> StageDone:
    record = StageRecord(name=name, role=name, status=status)  # type: ignore[arg-type]
    return StageDone(record=record, ref=BlobRef(hash=f"sha256:{name}"))


def state(**fields: object) -> RoleState:
    spent = Spend(tokens=500)
    core = RoleState(started_at=NOW, budget=Budget(limits=BudgetLimits(), spent=spent))
    return core.model_copy(update=fields)


def test_a_failed_stage_is_done_again_and_those_before_it_stay() -> None:
    core = state(
        iteration=2,
        stage=1,
        failure="reviewer: broke",
        tree="tree-of-the-coder",
        rejections=2,
        topics=("a",),
        done=[done("coder", "completed"), done("reviewer", "failed")],
    )
    stored = RoleState.model_validate(as_stored(last_state(core)))
    assert (stored.begun, stored.iteration, stored.stage, stored.attempt) == (True, 2, 1, 2)
    assert [one.record.name for one in stored.done] == ["coder"]
    assert (stored.rejections, stored.topics, stored.failure) == (0, (), None)

    records = [
        IterationRecord(index=1, tree_ref="tree-of-the-first"),
        IterationRecord(index=2, tree_ref="tree-of-the-coder"),
    ]
    again = completed(stored, records)
    assert [record.index for record in again.records] == [1]
    assert again.tree == "tree-of-the-coder"


def test_between_iterations_nothing_of_the_one_that_has_begun_is_kept() -> None:
    core = state(
        iteration=3,
        begun=True,
        stage=1,
        done=[done("coder", "completed")],
        notes=["mind the gap"],
        began=Spend(tokens=400),
    )
    stored = RoleState.model_validate(as_stored(between_iterations(core)))
    assert (stored.begun, stored.iteration, stored.stage, stored.done) == (False, 2, 0, [])
    assert stored.control.guidance == ["mind the gap"]
    assert stored.budget.spent.tokens == 400


def test_a_blocked_stage_is_done_again_in_the_same_iteration() -> None:
    core = state(
        iteration=2,
        stage=1,
        done=[done("coder", "completed"), done("reviewer", "blocked")],
        past=[
            StageShown(iteration=number, name=name, role=name)
            for number in (1, 2)
            for name in ("coder", "reviewer")
        ],
        past_count=4,
    )
    stored = RoleState.model_validate(as_stored(last_state(core)))
    assert (stored.begun, stored.iteration, stored.stage, stored.attempt) == (True, 2, 1, 2)
    assert [one.record.name for one in stored.done] == ["coder"]
    assert ({one.iteration for one in stored.past}, stored.past_count) == ({1}, 2)


def test_a_goal_judge_that_failed_is_asked_again_and_no_stage_is_done_again() -> None:
    verdict = VerdictRecord(kind="approved", by="reviewer")
    core = state(
        iteration=1,
        stage=2,
        doing="decide",
        done=[done("coder", "completed"), done("reviewer", "completed")],
        verdicts=[verdict],
        review=Review(word="approved"),
        cut=Ending(outcome="failed", reason="evaluator_failed"),
    )
    stored = RoleState.model_validate(as_stored(last_state(core)))
    assert (stored.doing, stored.iteration, stored.stage, stored.begun) == ("review", 1, 2, True)
    assert [one.record.name for one in stored.done] == ["coder", "reviewer"]
    assert (stored.verdicts, stored.review) == ([verdict], Review(word="approved"))
    assert (stored.completed, stored.cut, stored.attempt) == (0, None, 1)


def test_a_retry_counts_rejections_anew_and_grants_an_iteration_where_they_ended_the_run() -> None:
    ended = cleared(state(rejections=3, topics=("tests",), granted=1))
    assert (ended.rejections, ended.topics, ended.granted) == (0, (), 2)
    other = state(granted=1)
    assert cleared(other) == other
