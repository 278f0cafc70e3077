"""`RefineLoop`: execute, evaluate, decide, refine until it is good enough; returns the best."""

from temporalio import workflow

from perdure.domain import budget as budgets
from perdure.domain.agent.calls import VolumeLevel
from perdure.domain.agent.settings import Turns, resolve
from perdure.domain.agent.turn import Ending, TurnState
from perdure.domain.budget import Budget
from perdure.domain.gates import Gate
from perdure.domain.outcomes import Outcome
from perdure.domain.progress import Trajectory
from perdure.domain.refine.decision import Decision, decide, quality_met
from perdure.domain.refine.frame import RefineFrame
from perdure.domain.refine.iteration import (
    facts_of,
    failure_of,
    kept_of,
    later_tokens,
    record_of,
    refine_result,
    rescored,
)
from perdure.domain.refine.parts import failing_parts
from perdure.domain.refine.scoring import part_states, score_of
from perdure.domain.refine.state import Draft, Kept, RefineInput, RefineState
from perdure.domain.result import IterationRecord, Mark, RunResult
from perdure.domain.rubric import Rubric
from perdure.domain.steps import ModelCallReport, RefineEntry, SayEntry
from workflows.evaluating import Evaluating
from workflows.loop import expired_to_end
from workflows.model_calls import Ask, Called
from workflows.steps import Broken
from workflows.turns import TurnEnd

CONTINUE_PROMPT = "Your text was cut off. Go on exactly where it stopped; repeat nothing."
PART_TOKENS = 512


@workflow.defn(name="RefineLoop")
class RefineLoop(Evaluating):
    """One run: a goal and a rubric in, the best scored output out."""

    kind = "refine"

    @workflow.init
    def __init__(self, given: RefineInput) -> None:
        super().__init__(given)
        self.spec = given.spec
        self.turns: Turns = resolve(given.spec.agent)
        self.core = given.state or RefineState(
            started_at=workflow.now(), budget=Budget(limits=given.spec.budget)
        )

    @workflow.run
    async def run(self, given: RefineInput) -> RunResult:
        """Live to the end; the input is taken by `__init__`."""
        return await self.live()

    @property
    def iteration(self) -> int:
        """The iteration in progress, from 1."""
        return self.core.iteration

    @property
    def iteration_limit(self) -> int | None:
        """The permitted iterations."""
        return self.spec.refine.hard_limit

    def parts(self) -> tuple[tuple[str, bool, str], ...]:
        """Parts (or dimensions) of the best output with what they still lack."""
        kept = self.core.kept
        return part_states(self.rubric, kept.evaluation if kept else None)

    def next_input(self) -> RefineInput:
        """The same run, further on."""
        return RefineInput(
            run=self.run_id,
            site=self.site,
            spec=self.spec,
            state=self.core,
            started_at=self.core.started_at,
        )

    async def drive(self) -> RunResult:
        """The pipeline: open, then execute, evaluate, decide, refine until a decision ends it."""
        if self.core.frame is None:
            opened = await self.open(converses=False, extra=self._extra(self.spec.rubric))
            if isinstance(opened, Ending):
                return await self._close(opened.outcome, opened.reason, opened.detail)
        while True:
            ending = await self.checkpoint()
            if ending is not None:
                return await self._close(ending.outcome, ending.reason, ending.detail)
            await self._adopt_rubric()
            match self.core.stage:
                case "execute":
                    await self._execute()
                case "evaluate":
                    if self.core.draft.failure is None:
                        await self.evaluate()
                    self.core.stage = "decide"
                case "decide" | "ask":
                    asking = self.core.stage == "ask"
                    result = await (self._ask_person() if asking else self._decide())
                    if result is not None:
                        return result

    async def _execute(self) -> None:
        """Write a draft, or new versions of the failing parts."""
        core = self.core
        if not core.turning:
            self._begin()
        self.enter("executing")
        parts = self._failing_parts()
        ended = await self._write_parts(parts) if parts else await self._write_whole()
        if ended is not None:
            core.draft.ended_by = ended
        core.turning = False
        await self._keep_tree()
        core.stage = "evaluate"

    def _begin(self) -> None:
        core = self.core
        core.iteration += 1
        core.turning = True
        core.draft = Draft()
        core.tool_loop = "none"
        core.budget = budgets.count(core.budget, iterations=1)
        tallies = core.turn.tallies
        tallies.strikes = 0
        core.turn = TurnState(
            tallies=tallies,
            record=IterationRecord(index=core.iteration, started_at=workflow.now()),
        )
        core.notes, core.control.guidance = list(core.control.guidance), []
        core.turn.entries = [self._entry()]
        self.note("iteration_started")
        self.publish()

    def _entry(self, part: int | None = None) -> RefineEntry:
        core, newest = self.core, self.core.kept if part is not None else self.core.newest
        return RefineEntry(
            type="refine",
            previous=newest.output.hash if newest else None,
            evaluation=newest.evaluation if newest and part is None else None,
            threshold=self.spec.refine.quality_threshold,
            guidance=tuple(core.notes),
            error=core.last_error if part is None else None,
            part=part,
            tokens=later_tokens(core, newest if part is None else None),
        )

    def _failing_parts(self) -> tuple[int, ...]:
        kept = self.core.kept
        if self.spec.refine.output.parts == "whole" or kept is None or kept.evaluation is None:
            return ()
        failing = [item.part for item in failing_parts(self.rubric, kept.evaluation)]
        return tuple(part for part in failing if part not in self.core.draft.replies)

    async def _write_whole(self) -> str | None:
        core, turn = self.core, self.core.turn
        end = await self.take_turns(turn, self.turns, role="executor", phase="executing")
        self._take_end(end)
        if end.truncated and not turn.continued and core.draft.failure is None:
            turn.continued, turn.awaiting_results = True, False
            turn.entries = [SayEntry(type="say", text=CONTINUE_PROMPT)]
            more = await self.take_turns(turn, self.turns, role="executor", phase="executing")
            if more.text is not None:
                core.draft.pieces.append(more.text.hash)
            end = more
        return end.outcome if end.outcome in {"out_of_budget", "deadline", "stopped"} else None

    def _take_end(self, end: TurnEnd) -> None:
        draft = self.core.draft
        if end.text is not None:
            draft.pieces = [end.text.hash]
        if end.outcome == "failed":
            draft.failure, draft.failure_reason = end.detail or end.reason, end.reason
            draft.overflow = "context_overflow" in end.detail
        elif end.text is None:
            draft.failure = f"the executor gave no text ({end.outcome}/{end.reason})"
            draft.failure_reason = "model_error"

    async def _write_parts(self, parts: tuple[int, ...]) -> str | None:
        """One call per failing part; a part that cannot be had stays as it was."""
        for part in parts:
            ending = await self.checkpoint()
            if ending is not None:
                return ending.outcome
            called = await self.call_model(
                Ask(
                    role="executor",
                    phase="executing",
                    summary=f"part {part} (iteration {self.iteration})",
                    entries=[self._entry(part)],
                    tools_off=True,
                    max_tokens=PART_TOKENS,
                    records=tuple(self.core.unwritten),
                )
            )
            if not isinstance(called, ModelCallReport):
                return self._part_failed(called)
            self.core.unwritten = []
            self._record_call(self.core.turn, called)
            if called.text is not None:
                self.core.draft.replies[part] = called.text.hash
        return None

    def _part_failed(self, called: Called) -> str | None:
        if isinstance(called, Broken) and called.code == "interrupted":
            return "stopped"
        if not self.core.draft.replies:
            message = getattr(called, "message", None) or getattr(called, "text", "no reply")
            self.core.draft.failure = str(message)
            self.core.draft.failure_reason = "model_error"
        return None

    async def _keep_tree(self) -> None:
        report = await self.snapshot()
        if report is not None:
            self.core.draft.tree = report.tree.hash

    async def _decide(self) -> RunResult | None:
        """Update the trajectory, then obey the table."""
        core = self.core
        self.enter("deciding")
        decision, met = self._weigh()
        self._note_iteration(decision)
        self.note("decided", decision=decision.decision, row=decision.row, why=decision.explanation)
        self.publish()
        core.stage = "execute"
        if decision.ends:
            outcome, reason = decision.outcome or "failed", decision.reason or "internal"
            return await self._close(outcome, reason, decision.explanation, met=met)
        if decision.decision == "escalate":
            core.stage, core.question = "ask", core.control.escalation or decision.explanation
        self.enter("refining")
        return None

    def _weigh(self) -> tuple[Decision, bool]:
        core, draft = self.core, self.core.draft
        score = None if draft.failure is not None else score_of(self.rubric, draft.evaluation)
        repeated = draft.output_hash is not None and draft.output_hash in core.seen.hashes
        core.trajectory = core.trajectory.after(score, has_output=draft.output is not None)
        if draft.output_hash is not None:
            others = tuple(known for known in core.seen.hashes if known != draft.output_hash)
            core.seen = core.seen.model_copy(update={"hashes": (*others, draft.output_hash)})
        failure = failure_of(draft)
        core.failures_in_a_row = core.failures_in_a_row + 1 if failure else 0
        core.last_error = failure.message if failure else None
        self._mark_best(core.trajectory)
        facts = facts_of(
            core,
            settings=self.spec.refine,
            rubric=self.rubric,
            now=workflow.now(),
            repeated=repeated,
            failure=failure,
        )
        return decide(facts), quality_met(facts)

    def _mark_best(self, trajectory: Trajectory) -> None:
        core, version = self.core, kept_of(self.core)
        if version is None:
            return
        core.newest = version if core.draft.failure is None else core.newest
        core.last = Mark(
            iteration=core.iteration, score=version.score, output_ref=version.output.hash
        )
        if trajectory.best is not None and trajectory.best.iteration == core.iteration:
            core.kept, core.best = version, core.last
            core.budget = core.budget.model_copy(update={"complete_output": True})

    def _note_iteration(self, decision: Decision) -> None:
        core = self.core
        base = core.turn.record or IterationRecord(index=core.iteration)
        record = record_of(core, base, decision=decision, rubric=self.rubric)
        core.turn.record = None
        core.unwritten = [*core.turn.unwritten, *core.unwritten, record]
        core.turn.unwritten = []
        self.keep(record)

    async def _ask_person(self) -> RunResult | None:
        """Escalate; `continue` goes on with the text as guidance."""
        core = self.core
        gate = await self.ask("escalation", core.question, free_text=True)
        core.control.escalation, core.stage = None, "execute"
        ending = self.after_escalation(gate, core.turn)
        if ending is None:
            return None
        return await self._close(ending.outcome, ending.reason, ending.detail)

    async def escalated(self, state: TurnState) -> Ending | None:
        """Inside an iteration nothing is asked: the decision table does that, after it."""
        return None

    def after_escalation(self, gate: Gate | None, state: TurnState) -> Ending | None:
        """`accept` takes the best, `stop` ends, `continue` goes on with the text as guidance."""
        if gate is None or gate.answer is None:
            return self._ending()
        if expired_to_end(gate):
            return Ending(outcome="unanswered", reason="gate_expired")
        match gate.answer.choice:
            case "accept":
                return Ending(outcome="accepted", reason="approved")
            case "stop":
                return Ending(outcome="stopped", reason="stopped")
            case _:
                if gate.answer.text:
                    self.core.control.guidance = [*self.core.control.guidance, gate.answer.text]
                return None

    async def _adopt_rubric(self) -> None:
        """Take a rubric that a person amended: new frame, new hash, the best scored anew."""
        given, self.core.control.rubric = self.core.control.rubric, None
        if given is None:
            return
        rubric = Rubric.model_validate(given)
        opened = await self.open(converses=False, extra=self._extra(rubric))
        if isinstance(opened, Ending):
            return
        self.core.rubric = rubric
        if self.core.kept is not None:
            evaluation = await self.rescore(self.core.kept.output)
            if evaluation is not None:
                self.core = rescored(self.core, evaluation, rubric)
        self.core.newest = self.core.kept

    async def _close(
        self, outcome: Outcome, reason: str, detail: str = "", *, met: bool | None = None
    ) -> RunResult:
        """Return the best, whatever the reason."""
        core = self.core
        best_tree = core.kept.tree if core.kept else None
        tree = await self.snapshot(patch_to=best_tree or "") if core.base_tree else None
        result = refine_result(
            core,
            run=self.run_id,
            outcome=outcome,
            reason=reason,
            detail=detail,
            met=self._is_met() if met is None else met,
            wall_time=self.wall_time,
            tree=tree,
            loose=self._loose(),
        )
        return await self.finish(result, tuple(core.unwritten))

    def _is_met(self) -> bool:
        threshold = self.spec.refine.success_threshold
        return threshold is not None and self.core.trajectory.best_reached(threshold)

    def _loose(self) -> Kept | None:
        """An output of an iteration that never was evaluated: better than nothing."""
        return kept_of(self.core)

    def _extra(self, rubric: Rubric) -> dict[str, object]:
        frame = RefineFrame(rubric=rubric, output=self.spec.refine.output)
        return frame.model_dump(mode="json", by_alias=True)

    def on_critical_loop(self, level: VolumeLevel) -> Ending | None:
        """Inside refine the turn loop ends, and the decision table asks a person."""
        self.core.tool_loop = "critical"
        return Ending(outcome="tool_misuse", reason="tool_loop", detail=level.tool)

    def begin_iteration(self, state: TurnState) -> None:
        """A turn inside the iteration: the refine loop counts its own."""
        state.iteration += 1

    def complete_iteration(
        self, state: TurnState, *, break_reason: str | None, error: str | None = None
    ) -> None:
        """Turns share the iteration's record; only the reason is kept."""
        if state.record is not None and break_reason is not None:
            state.record = state.record.model_copy(update={"break_reason": break_reason})
