"""State transitions of a loop of roles. When it stops is in `perdure.domain.roles.stop_rules`."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType

from perdure.domain.agent.result import End
from perdure.domain.budget import accounting as budgets
from perdure.domain.evaluation.outcomes import explain
from perdure.domain.evaluation.termination_conditions import Condition
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.roles.definition import LoopDefinition, RoleDefinition
from perdure.domain.roles.review_reply import came_back
from perdure.domain.roles.spec import wants_verdict
from perdure.domain.roles.state import PAST_KEPT, KeptIteration, Review, RoleState, StageDone
from perdure.domain.roles.stop_rules import RoleDecision, RoleFacts
from perdure.domain.run.iteration_record import spent_since, with_account
from perdure.domain.run.result import Mark
from perdure.domain.tools.definitions import EXCERPT_CHARACTERS
from perdure.domain.turns.entries import StageEntry, StageShown
from perdure.domain.turns.records import (
    Decision,
    IterationRecord,
    StageRecord,
    StageStatus,
    VerdictRecord,
)
from perdure.domain.turns.turn import Ending, TurnState

# As elsewhere, an excerpt is estimated at one token for two characters.
SHOWN_TOKENS = EXCERPT_CHARACTERS // 2
REASON_CHARACTERS = 1_000
OWN_WORDS_TOKENS = 400
CUTTING = frozenset({"out_of_budget", "deadline", "stopped", "unanswered"})
_CUT_WORDS: Mapping[str, Decision] = MappingProxyType(
    {
        "out_of_budget": "abort_budget",
        "deadline": "abort_timeout",
        "failed": "abort_error",
        "blocked": "escalate",
        "accepted": "accept",
    }
)


def begin_iteration(state: RoleState, *, now: datetime) -> None:
    """A fresh iteration; guidance, spend and what was learned of earlier ones stay."""
    state.iteration += 1
    state.stage, state.attempt, state.doing = 0, 1, "stage"
    state.done, state.verdicts = [], []
    state.review, state.achieved = None, None
    state.failure, state.cut, state.repeated = None, None, False
    state.begun, state.began, state.began_at = True, state.budget.spent, now


def stage_entry(
    state: RoleState, definition: LoopDefinition, *, place: int, limit: int | None
) -> StageEntry:
    """What the prompt of a stage is composed from."""
    review = state.last_review
    # A rejection in words has no list of findings, so its text is shown.
    unlisted = review is not None and not review.listed and review.word != "approved"
    shown = [_shown(one, state.iteration) for one in state.done]
    return StageEntry(
        type="stage",
        iteration=state.iteration,
        limit=limit,
        place=place + 1,
        of=len(definition.roles),
        done=tuple(shown),
        past=tuple(state.past),
        left_out=state.past_count - len(state.past),
        findings=review.findings if review and review.listed else (),
        review=state.reviewed_text if unlisted else None,
        goal_reason=state.goal_reason,
        guidance=tuple(state.notes),
        answer=state.answer,
        tokens=shown_tokens(state)
        + (SHOWN_TOKENS if unlisted else 0)
        + state.seats[definition.roles[place].name].task_tokens,
    )


def shown_stages(state: RoleState) -> tuple[StageShown, ...]:
    """The stages of the iteration as the goal judge sees them."""
    return tuple(_shown(one, state.iteration) for one in state.done)


def shown_tokens(state: RoleState) -> int:
    """About what the stages of the iteration add to a prompt that shows them, with its words."""
    sizes = [min(one.ref.tokens.total, SHOWN_TOKENS) for one in state.done if one.ref]
    return sum(sizes) + OWN_WORDS_TOKENS


def stage_record(
    state: RoleState,
    role: RoleDefinition,
    *,
    status: StageStatus,
    count_cache_reads: bool,
    line: str = "",
    output: BlobRef | None = None,
    error: str | None = None,
) -> StageRecord:
    """The facts of a stage that is over, from the record of its turns."""
    turn = state.turn
    record = turn.record or IterationRecord(index=max(1, state.iteration))
    return StageRecord(
        name=role.name,
        role=role.role,
        status=status,
        attempt=state.attempt,
        line=line,
        output_ref=output.hash if output else None,
        transcript=turn.head.hash if turn.head else None,
        model=record.model,
        request_id=record.request_id,
        tokens=record.usage.counted_tokens(count_cache_reads=count_cache_reads),
        cost_usd=record.cost_usd,
        model_calls=record.model_calls,
        tool_calls=record.tool_calls,
        duration_s=record.duration_s,
        error=error,
    )


def note_tools(state: RoleState) -> None:
    """Keep what a stage did with tools, before its turns are forgotten."""
    used = dict(state.tools_used)
    for tool, count in state.turn.tallies.used.items():
        used[tool] = used.get(tool, 0) + count
    state.tools_used = used
    state.numbers = {**state.numbers, **state.turn.tallies.numbers}


def end_stage(
    state: RoleState, record: StageRecord, output: BlobRef | None, *, canonical: str | None = None
) -> None:
    """Take a stage's end; a failed or cut one leaves the others of the iteration undone."""
    spent = state.spent_by_stage
    state.spent_by_stage = {**spent, record.name: spent.get(record.name, 0) + record.tokens}
    paid = state.paid_by_stage
    cost = record.cost_usd or Decimal(0)
    state.paid_by_stage = {**paid, record.name: paid.get(record.name, Decimal(0)) + cost}
    note_tools(state)
    # A stage that is done again takes the place of its failed try.
    others = [one for one in state.done if one.record.name != record.name]
    done = StageDone(record=record, ref=output, head=state.turn.head, canonical=canonical)
    state.done = [*others, done]
    # Input that no call of this stage has taken is for the next stage.
    state.control.inputs = [*state.turn.unread, *state.control.inputs]
    # Records that no step has written yet outlive the turn.
    state.turn = TurnState(unwritten=state.turn.unwritten)
    state.turning, state.notes, state.answer, state.urged = False, [], None, 0
    state.child = None
    if record.status == "completed":
        state.stage, state.attempt = state.stage + 1, 1
    else:
        state.doing = "decide"


def take_review(state: RoleState, review: Review, *, by: str, text: str | None) -> None:
    """Take the verdict of the gate stage, and count rejections for the same findings."""
    state.review, state.last_review, state.reviewed_text = review, review, text
    verdict = VerdictRecord(
        kind=review.word,
        by=by,
        rationale=review.rationale,
        open_findings=review.open,
        asked_again=review.asked_again,
    )
    _note_verdict(state, verdict)
    if review.word == "rejected":
        again = came_back(state.topics, review.topics) if state.rejections else ()
        state.rejections = state.rejections + 1 if again else 1
        # Only what came back is followed: a reviewer who finds new points each time opens no gate.
        state.topics = again or review.topics
    # An unclear verdict leaves the count as it is: it settles nothing.
    elif review.word == "approved":
        state.rejections, state.topics = 0, ()


def take_goal(state: RoleState, *, achieved: bool, rationale: str, by: str) -> None:
    """Take what the goal judge said."""
    state.achieved = achieved
    state.goal_reason = "" if achieved else rationale[:REASON_CHARACTERS]
    kind = "achieved" if achieved else "not_achieved"
    _note_verdict(state, VerdictRecord(kind=kind, by=by, rationale=rationale[:400]))


def complete(state: RoleState, definition: LoopDefinition, condition: Condition) -> None:
    """Count an iteration whose stages are all over, and choose the best so far."""
    state.completed += 1
    counted = budgets.count(state.budget, iterations=1)
    # There is a result from now on, so that ordinary calls may use the reserve too.
    state.budget = counted.model_copy(update={"complete_output": True})
    made = _last_work(state, reviewer(definition, condition))
    _compare(state, made)
    review = state.review
    new = KeptIteration(
        iteration=state.iteration,
        output=made.ref if made else None,
        tree=state.tree,
        approved=bool(review and review.word == "approved") or bool(state.achieved),
        open=review.open if review is not None and review.listed else None,
    )
    state.kept = better(state.kept, new)
    state.best = Mark(iteration=state.kept.iteration, output_ref=_hash(state.kept.output))


def better(kept: KeptIteration | None, new: KeptIteration) -> KeptIteration:
    """The newer iteration, unless the one before it was approved, or had fewer open findings."""
    # Stages give no score, so the reviews decide: approval, then the number of open findings.
    if kept is None or kept.partial or new.approved:
        return new
    if kept.approved:
        return kept
    worse = kept.open is not None and new.open is not None and new.open > kept.open
    return kept if worse else new


def partial(state: RoleState, *, gate: str | None = None) -> KeptIteration | None:
    """The partial result of a run without a complete iteration: its last text that is not a review.

    Args:
        state: of the run.
        gate: the stage that reviews the others' work.
    """
    made = _last_work(state, gate)
    if made is None and state.tree is None:
        return None
    output = made.ref if made else None
    return KeptIteration(iteration=state.iteration, output=output, tree=state.tree, partial=True)


def close_iteration(state: RoleState, decision: RoleDecision, *, now: datetime) -> IterationRecord:
    """The record of the iteration that was decided on; its stages become lines for later ones."""
    account = spent_since(state.began, state.budget.spent)
    began = state.began_at or now
    bare = IterationRecord(index=state.iteration, started_at=began)
    record = with_account(bare, account).model_copy(
        update={
            "phase": state.phase,
            "decision": decision.decision,
            "stages": tuple(one.record for one in state.done),
            "verdicts": tuple(state.verdicts),
            "findings": _findings(state.review),
            "tool_calls": sum(one.record.tool_calls for one in state.done),
            "model": next((one.record.model for one in reversed(state.done)), None),
            "output_ref": _last_text(state),
            "tree_ref": state.tree,
            "break_reason": None if decision.outcome in {None, "accepted"} else decision.reason,
            "error": state.failure,
        }
    )
    lines = [_shown(one, state.iteration, bare=True) for one in state.done]
    state.past = [*state.past, *lines][-PAST_KEPT:]
    state.past_count += len(lines)
    state.last = Mark(iteration=state.iteration, output_ref=record.output_ref)
    state.begun = False
    return record


def facts(
    state: RoleState,
    *,
    condition: Condition,
    rework_limit: int,
    limit: int,
    now: datetime,
    wall_time: float,
    exhausted: tuple[str, str] | None,
    out_of_time: tuple[str, str] | None,
    unheard: bool = False,
) -> RoleFacts:
    """What the decision table looks at."""
    words = {"approved": True, "rejected": False}
    return RoleFacts(
        condition=condition,
        failure=state.failure,
        exhausted=exhausted,
        out_of_time=out_of_time,
        approved=words.get(state.review.word) if state.review else None,
        achieved=state.achieved,
        rejections=state.rejections,
        rework_limit=rework_limit,
        completed=max(0, state.completed - state.granted),
        limit=limit,
        active_seconds=state.budget.spent.active_time,
        wall_seconds=wall_time,
        now=now,
        tool_outputs={tool: str(number) for tool, number in state.numbers.items()},
        repeated=state.repeated,
        unheard=unheard,
    )


def cut_decision(ending: Ending) -> RoleDecision:
    """The decision recorded for an iteration that a limit or a person ended."""
    word = _CUT_WORDS.get(ending.outcome, "stop")
    why = explain(ending.outcome, ending.reason, ending.detail)
    return RoleDecision("cut", word, why, ending.outcome, ending.reason)


def status_of(end: End) -> StageStatus:
    """What the end of a turn loop means for its stage: it needs a text, and its own last word.

    A text that stops before its end is none: the verdict in it, or the work, may be yet to come.
    """
    # Somebody accepted what there is while the stage was at work: it did not get to its last word.
    by_person = end.outcome == "accepted" and end.reason == "approved"
    if by_person or (end.outcome in CUTTING and (end.partial or end.text is None)):
        return "cut"
    if end.text is None or end.outcome == "failed" or end.truncated:
        return "failed"
    return "completed"


def is_share_used(state: RoleState, role: RoleDefinition, *, count_cache_reads: bool) -> bool:
    """Whether a stage has used what it may of the run's tokens or money, over all iterations."""
    if role.budget is None:
        return False
    record = state.turn.record or IterationRecord(index=0)
    # By its digits: `Decimal(0.1)` is not a tenth.
    limits, share = state.budget.limits, Decimal(str(role.budget))
    now = record.usage.counted_tokens(count_cache_reads=count_cache_reads)
    tokens = state.spent_by_stage.get(role.name, 0) + now
    paid = state.paid_by_stage.get(role.name, Decimal(0)) + (record.cost_usd or Decimal(0))
    by_tokens = bool(limits.tokens) and tokens >= share * (limits.tokens or 0)
    by_money = bool(limits.cost_usd) and paid >= share * (limits.cost_usd or Decimal(0))
    return by_tokens or by_money


def _note_verdict(state: RoleState, verdict: VerdictRecord) -> None:
    state.verdicts = [*state.verdicts, verdict]
    counts = state.verdict_counts
    state.verdict_counts = {**counts, verdict.kind: counts.get(verdict.kind, 0) + 1}


def reviewer(definition: LoopDefinition, condition: Condition) -> str | None:
    """The stage that reviews what the others made; None where nobody does."""
    return definition.review_stage.name if wants_verdict(condition) else None


def _last_work(state: RoleState, gate: str | None) -> StageDone | None:
    """The last text of the iteration that is not the review of another."""
    texts = [one for one in state.done if one.ref is not None]
    work = [one for one in texts if one.record.name != gate] or texts
    return work[-1] if work else None


def _compare(state: RoleState, made: StageDone | None) -> None:
    """Note whether the output was seen before; the same words about other files were not."""
    if made is None or made.canonical is None:
        return
    # The same words about other files are no repetition.
    key = f"{made.canonical} {state.tree}" if state.tree else made.canonical
    state.repeated = key in state.seen
    state.seen = state.seen if state.repeated else (*state.seen, key)


def _last_text(state: RoleState) -> str | None:
    if state.kept is not None and state.kept.iteration == state.iteration:
        return _hash(state.kept.output)
    texts = [one.record.output_ref for one in state.done if one.record.output_ref]
    return texts[-1] if texts else None


def _findings(review: Review | None) -> tuple[dict[str, str], ...]:
    if review is None:
        return ()
    shown = {"severity", "title", "detail", "fix", "location"}
    return tuple(finding.model_dump(mode="json", include=shown) for finding in review.findings)


def _shown(one: StageDone, iteration: int, *, bare: bool = False) -> StageShown:
    record = one.record
    return StageShown(
        iteration=iteration,
        name=record.name,
        role=record.role,
        status=record.status,
        line=record.line or (record.error or "")[:200],
        ref=None if bare else record.output_ref,
    )


def _hash(ref: BlobRef | None) -> str | None:
    return None if ref is None else ref.hash
