"""The execute step of the refine loop: a whole draft, or new versions of its failing parts."""

from temporalio import workflow

from perdure.domain.budget.envelope import LimitReached, work
from perdure.domain.evaluation.rubric import Part
from perdure.domain.foundation.tokens import estimate
from perdure.domain.outputs.parts import draft_tokens, failing_parts, part_evaluation, part_tokens
from perdure.domain.refine.decision import NO_OUTPUT
from perdure.domain.refine.iteration_rules import later_tokens
from perdure.domain.refine.planning import plan_text
from perdure.domain.refine.state import BestDraft, Draft, RecalledMemory
from perdure.domain.refine.strategies import Strategy, strategy_of
from perdure.domain.refine.token_savings import sent_by_phase
from perdure.domain.run.activity_messages import ModelCallReport
from perdure.domain.turns.entries import Entry, RefineEntry, SayEntry
from perdure.domain.turns.failover import OVERFLOW_CODE
from perdure.domain.turns.guidance import in_force
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.settings import Turns
from perdure.domain.turns.tool_call_rules import VolumeLevel
from perdure.domain.turns.turn import SCHEMA_UNMET, Ending, TurnState
from perdure.workflows.engine.final_answer import TurnsEnd
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_caller import REFUSED
from perdure.workflows.refine_parts.evaluation import EvaluationStage

PART_CHARACTERS = 40
CUT_DRAFT = (
    "The last version reached the output limit and stops before its end. Write a whole one that is "
    "shorter."
)
CUTTING = frozenset({"out_of_budget", "deadline", "stopped", "unanswered"})


class Drafting(EvaluationStage):
    """Adds the writing of drafts; it is resumable at every checkpoint."""

    turns: Turns

    async def execute(self) -> None:
        """Write a draft, or new versions of the failing parts."""
        core = self.core
        if not core.turning:
            self._begin()
        self.set_phase("executing")
        parts = self._failing_parts()
        if parts or core.draft.replies:
            await self._write_parts(parts)
        else:
            await self._write_whole()
        core.turning = False
        await self._keep_tree()

    def _begin(self) -> None:
        """Open the iteration: a fresh draft, a fresh turn, the guidance that came meanwhile."""
        core = self.core
        core.iteration += 1
        core.turning, core.tool_loop = True, "none"
        core.draft = Draft(began=core.budget.spent, sent=sent_by_phase(core))
        tallies = core.turn.tallies
        tallies.strikes = 0
        core.turn = TurnState(
            tallies=tallies,
            record=IterationRecord(
                index=core.iteration, started_at=workflow.now(), adaptation=self._adaptation()
            ),
            unwritten=core.turn.unwritten,
            unread=core.turn.unread,
        )
        waiting = {given.text for given in (*core.turn.unread, *core.control.inputs)}
        said = in_force(core.control.standing, *core.control.guidance)
        core.notes = [text for text in said if text not in waiting]
        core.control.guidance = []
        core.turn.entries = [self._entry()]
        self.record_event("iteration_started")
        self._note_switch()
        self.set_phase("executing")
        self.sync_visibility()

    @property
    def strategy(self) -> Strategy | None:
        """The approach of the iteration in progress, with the pattern `strategies`."""
        return strategy_of(self.spec.refine.strategies, self.core.iteration)

    def _adaptation(self) -> str | None:
        return f"strategy {self.strategy.name}" if self.strategy else None

    def _note_switch(self) -> None:
        before = strategy_of(self.spec.refine.strategies, self.core.iteration - 1)
        now = self.strategy
        if now is not None and before is not None and now != before:
            self.record_event("strategy_switched", failed=before.name, to=now.name)

    def chain(self, role: str) -> tuple[str, ...]:
        """The models of a role; a strategy may bring its own to execute."""
        own = self.strategy.chain if role == "executor" and self.strategy else ()
        return (own[:1] if self.spec.models.pinned else own) or super().chain(role)

    def seat(self, role: str) -> str:
        """A strategy with its own models fails over by itself."""
        own = role == "executor" and self.strategy is not None and self.strategy.chain
        return f"{role}:{self.strategy.name}" if own and self.strategy else role

    def more_chains(self) -> dict[str, tuple[str, ...]]:
        """The models that strategies bring."""
        each = self.spec.refine.strategies
        return {f"executor:{one.name}": one.chain for one in each if one.chain}

    def on_offer(self, state: TurnState) -> tuple[str, ...]:
        """A strategy narrows the tools; a model that cannot choose any gets none."""
        names, strategy = super().on_offer(state), self.strategy
        if strategy is None:
            return names
        if strategy.chain and not self.core.cards[self.model_of("executor")].tools:
            return ()
        return names if strategy.tools is None else strategy.tools.offered(names)

    def _entry(self, part: Part | None = None) -> RefineEntry:
        core, strategy = self.core, self.strategy
        newest = core.newest if part is None else None
        previous = core.kept if part is not None else newest
        if strategy is not None:
            previous = None  # another approach begins anew, with what the last one lacked
        fresh = part is None and not (previous and self._shows_draft(newest))
        plan = plan_text(core.plan) if fresh else ""
        known = core.recollection if fresh else RecalledMemory()
        evaluation = newest.evaluation if newest else None
        if part is not None and core.kept is not None and core.kept.evaluation is not None:
            evaluation = part_evaluation(self.rubric, core.kept.evaluation, part)
        return RefineEntry(
            type="refine",
            previous=previous.output.hash if previous else None,
            evaluation=evaluation,
            threshold=self.spec.refine.quality_threshold,
            guidance=(*core.notes, *((CUT_DRAFT,) if newest and newest.truncated else ())),
            error=core.last_error if part is None and strategy is None else None,
            part=part,
            tokens=later_tokens(core, newest) + known.tokens + estimate(plan).total,
            plan=plan,
            changed=newest.changed if newest and previous else (),
            recalled=known.text,
            skills=known.skills_text,
            approach=strategy.approach if strategy else "",
        )

    def _shows_draft(self, newest: BestDraft | None) -> bool:
        """Whether an earlier output stands in the prompt, so that the plan need not."""
        model = self.chain("executor")[0]
        small = self.core.cards[model].small
        return newest is not None and self.spec.refine.output.shows_draft(small_model=small)

    def _failing_parts(self) -> tuple[Part, ...]:
        """The failing parts of the best output that this iteration has not rewritten yet."""
        kept = self.core.kept
        if self.spec.refine.output.parts == "whole" or kept is None or kept.evaluation is None:
            return ()
        failing = [item.part for item in failing_parts(self.rubric, kept.evaluation)]
        return tuple(part for part in failing if str(part) not in self.core.draft.replies)

    async def _write_whole(self) -> None:
        """Turns until there is text."""
        end = await self.take_turns(self.core.turn, self.turns, role="executor", phase="executing")
        self._take_end(end)

    def continues_cuts(self) -> bool:
        """Not in parts: surplus lines are left out anyway, and missing ones are asked for alone."""
        return self.spec.refine.output.parts == "whole"

    def _take_end(self, end: TurnsEnd) -> None:
        """What the end of a turn loop means for the draft."""
        draft = self.core.draft
        if end.reason == "tool_loop" and self.core.tool_loop == "none":
            self.core.tool_loop = "broken"
        cut = end.truncated and end.text is not None
        if end.outcome == "failed" and not (draft.pieces or cut):
            draft.failure, draft.failure_reason = end.detail or end.reason, end.reason
            draft.overflow = OVERFLOW_CODE in end.detail
            return
        if end.text is not None:
            draft.pieces = [*draft.pieces, end.text]
        misfits = self.core.turn.misfits_of(end.text) if self.structured else ()
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
        """One call per failing part; a part that cannot be had stays as it was."""
        for part in parts:
            alike = len(parts) > 1
            ending = await self.checkpoint() or await self._write_part(part, alike=alike)
            if ending is not None:
                self._end_parts(ending)
                return

    async def _write_part(self, part: Part, *, alike: bool) -> Ending | None:
        core, turn = self.core, self.core.turn
        ask = ModelCallSpec(
            role="executor",
            phase="executing",
            summary=f"part {_short(part)} (iteration {self.iteration})",
            entries=[self._entry(part), *self._said()],
            tools_off=True,
            max_tokens=part_tokens(self.rubric, part, self.spec.refine.output.parts),
            records=tuple(turn.unwritten),
            followed=alike or None,
        )
        called, _ = await self.recorded_call(turn, ask, tools_offered=0)
        if isinstance(called, LimitReached) and await self.budget_raised(called):
            return await self._write_part(part, alike=alike)
        if not isinstance(called, ModelCallReport):
            return self.ending_of(called)
        if called.text is not None and called.stop_reason != REFUSED:
            core.draft.replies = {**core.draft.replies, str(part): called.text.hash}
        return None

    def _said(self) -> list[Entry]:
        """What people said meanwhile: it goes along with the next part."""
        control, turn = self.core.control, self.core.turn
        turn.unread = [*turn.unread, *control.inputs]
        control.inputs = []
        return [
            SayEntry(
                type="say",
                text=given.text,
                ref=given.ref.hash if given.ref else None,
                tokens=given.ref.tokens.total if given.ref else 0,
                pinned=True,
            )
            for given in turn.unread
        ]

    def _end_parts(self, ending: Ending) -> None:
        draft = self.core.draft
        if ending.outcome != "failed":
            draft.cut = ending
        elif not draft.replies:
            draft.failure, draft.failure_reason = ending.detail, ending.reason
            draft.overflow = OVERFLOW_CODE in ending.detail

    async def _keep_tree(self) -> None:
        """Snapshot the working folder: the tree belongs to the draft."""
        report = await self.snapshot()
        if report is not None:
            self.core.draft.tree = report.tree.hash
            self.apply_budget(work(self.core.budget, report.seconds))

    async def escalated(self, state: TurnState) -> Ending | None:
        """Inside an iteration nothing is asked: the decision table does that, after it."""
        return None

    def on_critical_loop(self, level: VolumeLevel) -> Ending | None:
        """The turn loop ends with a closing text, and the decision table asks a person."""
        self.core.tool_loop = "critical"
        return Ending(outcome="tool_misuse", reason="tool_loop", detail=level.tool)

    def output_cap(self) -> int | None:
        """A draft of bounded parts needs no more than they do together."""
        whole = self.spec.refine.output.parts == "whole"
        return None if whole else draft_tokens(self.rubric)

    def begins_again(self) -> bool | None:
        """Drafts begin alike, and the least number of them is written whatever they score."""
        return self.spec.refine.min_iterations > 1 or None

    def begin_iteration(self, state: TurnState) -> None:
        """A turn inside the iteration: the refine loop counts its own."""
        state.iteration += 1

    def complete_iteration(
        self, state: TurnState, *, break_reason: str | None, error: str | None = None
    ) -> None:
        """Turns share the iteration's record; only the reason is kept."""
        if state.record is not None and break_reason is not None:
            state.record = state.record.model_copy(update={"break_reason": break_reason})


def _short(part: Part) -> str:
    return str(part)[:PART_CHARACTERS]
