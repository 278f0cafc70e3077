"""The execute stage of the refine loop: a whole draft, or new versions of failing parts."""

from temporalio import workflow

from perdure.domain.budget.accounting import LimitReached, add_active_time
from perdure.domain.evaluation.rubric import Part
from perdure.domain.foundation.tokens import estimate
from perdure.domain.outputs.parts import failing_parts, part_evaluation, part_tokens
from perdure.domain.refine.iteration_rules import later_tokens
from perdure.domain.refine.planning import plan_text
from perdure.domain.refine.spec import strategy_of
from perdure.domain.refine.state import BestDraft, Draft, RecalledMemory
from perdure.domain.refine.stop_rules import NO_OUTPUT
from perdure.domain.refine.token_savings import sent_by_phase
from perdure.domain.run.activity_messages import ModelCallReport
from perdure.domain.run.hooks import adaptation_lines
from perdure.domain.turns.entries import Entry, RefineEntry, SayEntry
from perdure.domain.turns.failover import OVERFLOW_CODE
from perdure.domain.turns.guidance import in_force
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import SCHEMA_UNMET, Ending, TurnState
from perdure.workflows.engine.agent_turns import AgentTurns
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.final_answer import TurnsEnd
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_caller import REFUSED
from perdure.workflows.refine_parts.judging_reserve import JudgingReserve
from perdure.workflows.refine_parts.policies import DraftTurns, StrategyModels
from perdure.workflows.refine_parts.run import RefineRun

PART_CHARACTERS = 40
CUT_DRAFT = (
    "The last version reached the output limit and stops before its end. Write a whole one that is "
    "shorter."
)
CUTTING = frozenset({"out_of_budget", "deadline", "stopped", "unanswered"})


class Drafting:
    """Writes drafts; can be resumed at every checkpoint."""

    def __init__(
        self, run: RefineRun, engine: Engine, selection: StrategyModels, reserve: JudgingReserve
    ) -> None:
        self.run = run
        self.reserve = reserve
        self.life = engine.life
        self.limits = engine.limits
        self.snapshots = engine.snapshots
        self.selection = selection
        policy = DraftTurns(run, selection, left=reserve.left_for_draft)
        self.turns = AgentTurns(engine, policy)
        self.answers = self.turns.answers

    async def execute(self) -> None:
        """Write a draft, or new versions of the failing parts."""
        state = self.run.state
        # A run that continued as new inside a draft goes on with it, and must not count it twice.
        if not state.turning:
            self._begin_draft()
        self.run.set_phase("executing")
        parts = self._failing_parts()
        if parts or state.draft.replies:
            await self._write_parts(parts)
        else:
            # Take turns until there is text.
            end = await self.turns.take_turns(
                self.run.state.turn, self.run.turns, role="executor", phase="executing"
            )
            self._take_end(end)
        state.turning = False
        # Snapshot the working folder, so that the best draft can be returned with its files.
        report = await self.snapshots.take()
        if report is not None:
            self.run.state.draft.tree = report.tree.hash
            self.run.apply_budget(add_active_time(self.run.state.budget, report.seconds))

    async def ask_or_end_if_unjudgeable(self) -> Ending | None:
        """Why no draft may start: the budget could not pay its judges. None if it may."""
        while not self.run.state.turning and (short := self.reserve.why_not_payable()) is not None:
            if not await self.limits.ask_for_budget(short):
                return self.limits.ending_of(short)
        return None

    def _begin_draft(self) -> None:
        """Open an iteration: a new draft and turn, with the guidance that came meanwhile."""
        state = self.run.state
        state.iteration += 1
        state.turning, state.tool_loop = True, "none"
        state.draft = Draft(began=state.budget.spent, sent=sent_by_phase(state))
        # What the calls of the last draft failed to take along waits again: this conversation has
        # none of it.
        state.control.inputs = [*state.turn.unread, *state.control.inputs]
        tallies = state.turn.tallies
        # The call counters stay, so that repeated calls are noticed over drafts; violations count
        # anew.
        tallies.strikes = 0
        state.turn = TurnState(
            tallies=tallies,
            record=IterationRecord(
                index=state.iteration, started_at=workflow.now(), adaptation=self._adaptation()
            ),
            unwritten=state.turn.unwritten,
        )
        waiting = {given.text for given in state.control.inputs}
        said = in_force(state.control.standing, *state.control.guidance)
        state.notes = [text for text in said if text not in waiting]
        # Guidance goes into the prompt of this draft; what comes later is for the next turn.
        state.control.guidance = []
        state.turn.entries = [self._entry()]
        self.run.record_event("iteration_started")
        before = strategy_of(self.run.spec.refine.strategies, self.run.state.iteration - 1)
        now = self.selection.strategy
        if now is not None and before is not None and now != before:
            self.run.record_event("strategy_switched", failed=before.name, to=now.name)
        self.run.set_phase("executing")
        self.run.sync_visibility()

    def _adaptation(self) -> str | None:
        return f"strategy {self.selection.strategy.name}" if self.selection.strategy else None

    def _entry(self, part: Part | None = None) -> RefineEntry:
        state, strategy = self.run.state, self.selection.strategy
        newest = state.newest if part is None else None
        previous = state.kept if part is not None else newest
        if strategy is not None:
            previous = None  # another approach begins anew, with what the last one lacked
        fresh = part is None and not (previous and self._shows_draft(newest))
        # Later prompts carry the draft and its findings, which say the same as the plan.
        plan = plan_text(state.plan) if fresh else ""
        known = state.recollection if fresh else RecalledMemory()
        evaluation = newest.evaluation if newest else None
        if part is not None and state.kept is not None and state.kept.evaluation is not None:
            evaluation = part_evaluation(self.run.rubric, state.kept.evaluation, part)
        return RefineEntry(
            type="refine",
            previous=previous.output.hash if previous else None,
            evaluation=evaluation,
            threshold=self.run.spec.refine.quality_threshold,
            guidance=(*state.notes, *((CUT_DRAFT,) if newest and newest.truncated else ())),
            error=state.last_error if part is None and strategy is None else None,
            part=part,
            tokens=later_tokens(state, newest)
            + known.tokens
            + estimate("\n".join((plan, *adaptation_lines(state.adaptation)))).total,
            adaptation=state.adaptation,
            plan=plan,
            changed=newest.changed if newest and previous else (),
            recalled=known.text,
            skills=known.skills_text,
            approach=strategy.approach if strategy else "",
        )

    def _shows_draft(self, newest: BestDraft | None) -> bool:
        """Whether the prompt shows an earlier output, so that it can leave out the plan."""
        model = self.selection.chain("executor")[0]
        small = self.run.state.cards[model].small
        return newest is not None and self.run.spec.refine.output.shows_draft(small_model=small)

    def _failing_parts(self) -> tuple[Part, ...]:
        """The failing parts of the best output that this iteration has not rewritten yet."""
        kept = self.run.state.kept
        if self.run.spec.refine.output.parts == "whole" or kept is None or kept.evaluation is None:
            return ()
        failing = [item.part for item in failing_parts(self.run.rubric, kept.evaluation)]
        return tuple(part for part in failing if str(part) not in self.run.state.draft.replies)

    def _take_end(self, end: TurnsEnd) -> None:
        """Apply the end of a turn loop to the draft."""
        draft = self.run.state.draft
        if end.reason == "tool_loop" and self.run.state.tool_loop == "none":
            self.run.state.tool_loop = "broken"
        cut = end.truncated and end.text is not None
        if end.outcome == "failed" and not (draft.pieces or cut):
            draft.failure, draft.failure_reason = end.detail or end.reason, end.reason
            draft.overflow = OVERFLOW_CODE in end.detail
            return
        if end.text is not None:
            draft.pieces = [*draft.pieces, end.text]
        misfits = self.run.state.turn.misfits_of(end.text) if self.run.structured else ()
        draft.misfits = misfits
        if misfits and end.outcome not in CUTTING and end.text is not None:
            # Not scored, so that nothing can accept it; the next draft is told what is wrong.
            draft.failure = f"the draft does not fit `output_schema`: {'; '.join(misfits)}"
            draft.failure_reason, draft.heals = SCHEMA_UNMET, True
        draft.truncated = end.truncated
        draft.partial = end.partial or end.truncated or end.outcome == "failed"
        if end.outcome in CUTTING and (end.partial or end.text is None):
            draft.cut = Ending(outcome=end.outcome, reason=end.reason, detail=end.detail)
        elif not draft.pieces:
            draft.failure = f"the executor gave no text ({end.outcome}/{end.reason})"
            if end.outcome == NO_OUTPUT:
                draft.failure_reason = NO_OUTPUT

    async def _write_parts(self, parts: tuple[Part, ...]) -> None:
        """Make one call per failing part; a part without a reply stays as it was."""
        for part in parts:
            alike = len(parts) > 1
            ending = await self.life.checkpoint() or await self._write_part(part, alike=alike)
            if ending is not None:
                self._end_parts(ending)
                return

    async def _write_part(self, part: Part, *, alike: bool) -> Ending | None:
        state, turn = self.run.state, self.run.state.turn
        ask = ModelCallSpec(
            role="executor",
            phase="executing",
            summary=f"part {str(part)[:PART_CHARACTERS]} (iteration {self.run.iteration})",
            entries=[self._entry(part), *self._take_inputs()],
            tools_off=True,
            max_tokens=part_tokens(self.run.rubric, part, self.run.spec.refine.output.parts),
            records=tuple(turn.unwritten),
            followed=alike or None,
        )
        called, _ = await self.answers.recorded_call(turn, ask, tools_offered=0)
        if isinstance(called, LimitReached) and await self.limits.ask_for_budget(called):
            return await self._write_part(part, alike=alike)
        if not isinstance(called, ModelCallReport):
            return self.limits.ending_of(called)
        if called.text is not None and called.stop_reason != REFUSED:
            # Stored part by part: a run that continues as new here asks only for the parts that are
            # missing.
            state.draft.replies = {**state.draft.replies, str(part): called.text.hash}
        return None

    def _take_inputs(self) -> list[Entry]:
        """What people said meanwhile, for the prompt of the next part."""
        control, turn = self.run.state.control, self.run.state.turn
        turn.unread = [*turn.unread, *control.inputs]
        control.inputs = []
        return [SayEntry.of(given) for given in turn.unread]

    def _end_parts(self, ending: Ending) -> None:
        draft = self.run.state.draft
        if ending.outcome != "failed":
            draft.cut = ending
        elif not draft.replies:
            draft.failure, draft.failure_reason = ending.detail, ending.reason
            draft.overflow = OVERFLOW_CODE in ending.detail
