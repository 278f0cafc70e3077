"""One stage of a role loop: its turns, its output, and its questions to people.

A pause takes effect after the stage. A stage that asks a person waits, if need be across
continue-as-new, and goes on in the same conversation.
"""

from temporalio import workflow

from perdure.activities.roles import ReadStage
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.roles import iteration_rules as rules
from perdure.domain.roles.definition import RoleDefinition
from perdure.domain.roles.messages import ReadStageReport, ReadStageRequest
from perdure.domain.roles.prompts import DECIDE_YOURSELF, answer_text
from perdure.domain.roles.spec import compares_outputs
from perdure.domain.roles.state import StageBinding
from perdure.domain.run.activity_messages import OpenRunReport
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.guidance import in_force
from perdure.domain.turns.records import IterationRecord, StageStatus
from perdure.domain.turns.turn import Ending, TurnState
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.agent_turns import AgentTurns
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.final_answer import TurnsEnd
from perdure.workflows.engine.human_input import expired_to_end
from perdure.workflows.engine.metrics import count_stage
from perdure.workflows.engine.step_runner import StepFailed
from perdure.workflows.role_parts.run import RoleRun

BASE = ""
TIMES_URGED = 2
# Patch: the tool calls of a blocked stage were forgotten when a person had it begin anew.
BLOCKED_TRIES_COUNT = "the tools of a blocked try count"


class Stages:
    """Runs stages that are turns of a model; can be resumed at every checkpoint."""

    def __init__(self, run: RoleRun, engine: Engine, turns: AgentTurns) -> None:
        self.run = run
        self.steps = engine.steps
        self.people = engine.people
        self.snapshots = engine.snapshots
        self.turns = turns

    async def run_stage(self) -> None:
        """Run the next stage: take its turns, then store and read its output."""
        state, role = self.run.state, self.run.role
        if not state.turning:
            self._begin_stage(role)
        self.run.set_phase("staging")
        while state.question is None or await self._ask_question():
            end = await self.turns.take_turns(
                state.turn, self.run.turns, role=role.role, phase="staging"
            )
            await self._take_end(role, end)
            if state.question is None:
                return

    def _begin_stage(self, role: RoleDefinition) -> None:
        """Set up the role and give it its task, with the guidance that came meanwhile."""
        state = self.run.state
        # Frame and tools are switched before anything is counted or sent: the prompt's size depends
        # on both.
        self.bind_stage(role.name)
        state.turning = True
        # What was added and nobody has read yet comes with the stage's first turn.
        waiting = {given.text for given in state.control.inputs}
        said = in_force(state.control.standing, *state.notes, *state.control.guidance)
        state.notes = [text for text in said if text not in waiting]
        state.control.guidance = []
        # A stage that was blocked and begins anew keeps what its first try spent.
        record = state.turn.record or IterationRecord(
            index=state.iteration, started_at=workflow.now()
        )
        entry = rules.stage_entry(
            state, self.run.definition, place=state.stage, limit=self.run.iteration_limit
        )
        state.turn = TurnState(unwritten=state.turn.unwritten, record=record, entries=[entry])
        self.note_stage(role)

    def note_stage(self, role: RoleDefinition) -> None:
        """Report that a stage begins."""
        state = self.run.state
        self.run.record_event(
            "stage_started",
            stage=role.name,
            role=role.role,
            index=state.stage + 1,
            of=len(self.run.definition.roles),
            attempt=state.attempt if state.attempt > 1 else None,
        )
        self.run.set_phase("staging")
        self.run.sync_visibility()

    def bind_stage(self, name: str) -> None:
        """Take the frame and the tools of a stage."""
        state, seat = self.run.state, self.run.state.seats[name]
        state.frame, state.system_tokens, state.task_tokens = seat.frame, seat.system_tokens, 0
        state.terms = [term for term in state.all_terms if term.name in seat.tools]

    async def _take_end(self, role: RoleDefinition, end: TurnsEnd) -> None:
        """Apply the end of the turns to the stage."""
        status = rules.status_of(end)
        if status == "cut":
            self.run.state.cut = Ending(outcome=end.outcome, reason=end.reason, detail=end.detail)
        if end.outcome == "no_output" and role.name == self.run.reviewer:
            # An empty review is no verdict: it is asked for again, and counts as an unclear one.
            await self.end_stage(role, "completed")
            return
        if status != "completed" or end.text is None:
            error = end.detail or f"{end.outcome}/{end.reason}"
            await self.end_stage(role, status, output=end.text, error=error)
            return
        read = await self.read_stage(role, end.text)
        if isinstance(read, StepFailed):
            await self.end_stage(role, "failed", output=end.text, error=read.message)
        elif read.question is not None:
            self.run.state.question = read.question
        else:
            if read.review is not None:
                self.run.state.review = read.review
            await self.end_stage(role, "completed", output=end.text, read=read)

    async def read_stage(
        self, role: RoleDefinition, text: BlobRef, *, measure: bool = False
    ) -> ReadStageReport | StepFailed:
        """Store and read a stage's output; `measure` if its size is not known."""
        state, activity_id = self.run.state, self.run.next_activity_id()
        gate = (
            bool(self.run.definition.criteria)
            and role.name == self.run.definition.review_stage.name
        )
        handle = workflow.start_activity_method(
            ReadStage.read_stage,
            ReadStageRequest(
                run=self.run.id,
                frame=state.frame or "",
                iteration=state.iteration,
                stage=role.name,
                role=role.role,
                attempt=state.attempt,
                text=text.hash,
                gate=gate,
                measure=measure,
                compare=compares_outputs(self.run.condition),
            ),
            **activity_options.store_step(
                self.run.site,
                activity_id=activity_id,
                summary=f"keep {role.name} (iteration {state.iteration})",
            ),
        )
        outcome = await self.steps.await_step(handle, activity_id=activity_id)
        return outcome if isinstance(outcome, StepFailed) else outcome.report

    async def end_stage(
        self,
        role: RoleDefinition,
        status: StageStatus,
        *,
        output: BlobRef | None = None,
        read: ReadStageReport | None = None,
        error: str | None = None,
        child: str | None = None,
    ) -> None:
        """Close the stage: take its snapshot, write its record, report its end."""
        line = read.line if read else ""
        state = self.run.state
        # Of a stage that ran a loop, the files that its child ended with are taken over instead.
        writes = role.loop is None and state.base_tree is not None
        report = await self.snapshots.take() if writes and self._may_write(role) else None
        state.tree = report.tree.hash if report else state.tree
        error = None if status == "completed" else error
        record = rules.stage_record(
            state,
            role,
            status=status,
            line=line,
            output=output,
            error=error,
            count_cache_reads=self.run.counts_cache_reads,
        ).model_copy(update={"child": child})
        if status == "failed":
            state.failure = f"{role.name}: {error}"
        rules.end_stage(state, record, output, canonical=read.canonical if read else None)
        count_stage(role.role, status)
        self.run.record_event(
            "stage_finished",
            stage=role.name,
            role=role.role,
            status=status,
            text=(line or error or "")[:200] or None,
            tokens=record.tokens,
            child=child,
        )

    def _may_write(self, role: RoleDefinition) -> bool:
        names = set(self.run.state.seats[role.name].tools)
        return any(
            term.access in {"write", "execute"}
            for term in self.run.state.all_terms
            if term.name in names
        )

    async def _ask_question(self) -> bool:
        """Get an answer to the stage's question; False if the stage ends instead."""
        state, role, asked = self.run.state, self.run.role, self.run.state.question
        if asked is None:
            return True
        if role.on_question == "default":
            return await self._urged(role)
        kind = "blocked" if asked.kind == "blocked" else "question"
        stands = "is blocked" if kind == "blocked" else "asks"
        prompt = f"The stage {role.name} ({role.role}) {stands}: {asked.text or 'it cannot go on'}"
        gate = await self.people.ask(kind, prompt, free_text=True)
        answer = gate.answer if gate is not None else None
        if gate is None or answer is None:
            return await self._unanswered(role, self.run.ending())
        if expired_to_end(gate):
            ending = Ending(outcome="unanswered", reason="gate_expired", detail=prompt[:200])
            return await self._unanswered(role, ending)
        if kind == "blocked":
            return await self._unblocked(role, answer.choice == "retry", answer.text)
        state.question = None
        told = answer_text(answer.words, expired=answer.expired)
        state.turn.entries = [SayEntry(type="say", text=told, pinned=True)]
        return True

    async def _urged(self, role: RoleDefinition) -> bool:
        """Tell the stage to decide by itself; if it keeps asking, end the run."""
        state = self.run.state
        if state.urged >= TIMES_URGED:
            text = state.question.text if state.question else ""
            ending = Ending(outcome="blocked", reason="blocked", detail=f"{role.name}: {text}")
            return await self._unanswered(role, ending)
        state.question, state.urged = None, state.urged + 1
        state.turn.entries = [SayEntry(type="say", text=DECIDE_YOURSELF, pinned=True)]
        return True

    async def _unblocked(self, role: RoleDefinition, again: bool, note: str | None) -> bool:
        """Restart the stage with the person's note, or end the run."""
        state = self.run.state
        if not again:
            text = state.question.text if state.question else ""
            ending = Ending(outcome="blocked", reason="blocked", detail=f"{role.name}: {text}")
            return await self._unanswered(role, ending)
        state.question, state.answer, state.attempt = None, note, state.attempt + 1
        if workflow.patched(BLOCKED_TRIES_COUNT):
            rules.note_tools(state)
        self._begin_stage(role)
        return True

    async def _unanswered(self, role: RoleDefinition, ending: Ending | None) -> bool:
        state, asked = self.run.state, self.run.state.question
        state.cut, state.question = ending, None
        status: StageStatus = "blocked" if ending and ending.outcome == "blocked" else "cut"
        await self.end_stage(role, status, error=asked.text if asked else None)
        return False

    def take_seats(self, report: OpenRunReport) -> None:
        """Remember the frames of the stages and of the run."""
        state = self.run.state
        state.seats = {
            name: seat.model_copy(
                update={
                    "frame": report.seats[name].frame,
                    "system_tokens": report.seats[name].system_tokens,
                    "task_tokens": report.seats[name].task_tokens,
                }
            )
            for name, seat in state.seats.items()
        }
        state.seats[BASE] = StageBinding(frame=report.frame, task_tokens=report.task_tokens)
