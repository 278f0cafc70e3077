"""One stage of a role loop: the turns of its role, what it said kept and read, its questions.

A pause takes effect after the stage; a stage that asks waits for a person, also across
continue-as-new, and goes on in the same conversation.
"""

from temporalio import workflow

from perdure.activities.roles import ReadStage
from perdure.domain.evaluation.conditions import Condition
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.roles import iteration_rules as rules
from perdure.domain.roles.definition import LoopDefinition, LoopSnapshot, RoleDefinition
from perdure.domain.roles.limits import compares_outputs
from perdure.domain.roles.messages import ReadStageReport, ReadStageRequest
from perdure.domain.roles.prompts import DECIDE_YOURSELF, answer_text
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.roles.stage_bindings import (
    seat_tools,
    seated,
    stage_chain,
    stage_extra,
    stage_system,
)
from perdure.domain.roles.state import RoleState, StageBinding
from perdure.domain.run.activity_messages import (
    OpenRunReport,
    OpenWorkspaceReport,
    StageSetup,
    StageTools,
)
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.guidance import in_force
from perdure.domain.turns.records import IterationRecord, StageStatus
from perdure.domain.turns.settings import Turns
from perdure.domain.turns.turn import Ending, Limits, TurnState
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.agent_turns import AgentTurns
from perdure.workflows.engine.base import expired_to_end
from perdure.workflows.engine.child_runs import ChildRuns
from perdure.workflows.engine.final_answer import TurnsEnd
from perdure.workflows.engine.metrics import count_stage
from perdure.workflows.engine.step_runner import StepFailed

BASE = ""
TIMES_URGED = 2


class Stages(AgentTurns, ChildRuns):
    """Adds stages to a loop; it is resumable at every checkpoint."""

    spec: RolesSpec  # pyright: ignore[reportIncompatibleVariableOverride]
    core: RoleState  # pyright: ignore[reportIncompatibleVariableOverride]
    snapshot_of: LoopSnapshot
    condition: Condition
    turns: Turns

    @property
    def definition(self) -> LoopDefinition:
        """The loop as it stood when the run started."""
        return self.snapshot_of.definition

    @property
    def role(self) -> RoleDefinition:
        """The stage in progress, or the next one."""
        return self.definition.roles[min(self.core.stage, len(self.definition.roles) - 1)]

    @property
    def stage_name(self) -> str:
        """The stage whose tools are called."""
        return self.role.name

    async def run_stage(self) -> None:
        """The next stage: its turns, then what it said is kept and read."""
        core, role = self.core, self.role
        if not core.turning:
            self._begin_stage(role)
        self.set_phase("staging")
        while core.question is None or await self._question_answered():
            end = await self.take_turns(core.turn, self.turns, role=role.role, phase="staging")
            await self._take_end(role, end)
            if core.question is None:
                return

    def _begin_stage(self, role: RoleDefinition) -> None:
        """Seat the role, and tell it its task, with the guidance that came meanwhile."""
        core = self.core
        self.bind_stage(role.name)
        core.turning = True
        # What was added and nobody has read yet comes with the stage's first turn.
        waiting = {given.text for given in core.control.inputs}
        said = in_force(core.control.standing, *core.notes, *core.control.guidance)
        core.notes = [text for text in said if text not in waiting]
        core.control.guidance = []
        record = core.turn.record or IterationRecord(
            index=core.iteration, started_at=workflow.now()
        )
        entry = rules.stage_entry(
            core, self.definition, place=core.stage, limit=self.iteration_limit
        )
        core.turn = TurnState(unwritten=core.turn.unwritten, record=record, entries=[entry])
        self.note_stage(role)

    def note_stage(self, role: RoleDefinition) -> None:
        """Say that a stage begins."""
        core = self.core
        self.record_event(
            "stage_started",
            stage=role.name,
            role=role.role,
            index=core.stage + 1,
            of=len(self.definition.roles),
            attempt=core.attempt if core.attempt > 1 else None,
        )
        self.set_phase("staging")
        self.sync_visibility()

    def bind_stage(self, name: str) -> None:
        """Take the frame and the tools of a stage."""
        core, seat = self.core, self.core.seats[name]
        core.frame, core.system_tokens, core.task_tokens = seat.frame, seat.system_tokens, 0
        core.terms = [term for term in core.all_terms if term.name in seat.tools]

    async def _take_end(self, role: RoleDefinition, end: TurnsEnd) -> None:
        """What the end of the turns means for the stage."""
        status = rules.status_of(end)
        if status == "cut":
            self.core.cut = Ending(outcome=end.outcome, reason=end.reason, detail=end.detail)
        if end.outcome == "no_output" and role.name == self._reviewer:
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
            self.core.question = read.question
        else:
            if read.review is not None:
                self.core.review = read.review
            await self.end_stage(role, "completed", output=end.text, read=read)

    @property
    def _reviewer(self) -> str | None:
        return rules.reviewer(self.definition, self.condition)

    async def read_stage(
        self, role: RoleDefinition, text: BlobRef, *, measure: bool = False
    ) -> ReadStageReport | StepFailed:
        """Keep what a stage said, and read it; `measure` where its size is not known."""
        core, activity_id = self.core, self.next_activity_id()
        gate = bool(self.definition.criteria) and role.name == self.definition.gate.name
        handle = workflow.start_activity_method(
            ReadStage.read_stage,
            ReadStageRequest(
                run=self.run_id,
                frame=core.frame or "",
                iteration=core.iteration,
                stage=role.name,
                role=role.role,
                attempt=core.attempt,
                text=text.hash,
                gate=gate,
                measure=measure,
                compare=compares_outputs(self.condition),
            ),
            **activity_options.store_step(
                self.site,
                activity_id=activity_id,
                summary=f"keep {role.name} (iteration {core.iteration})",
            ),
        )
        outcome = await self.await_step(handle, activity_id=activity_id)
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
        """Close the stage: its files, its facts, its event."""
        line = read.line if read else ""
        core = self.core
        writes = role.loop is None and core.base_tree is not None
        report = await self.snapshot() if writes and self._may_write(role) else None
        core.tree = report.tree.hash if report else core.tree
        error = None if status == "completed" else error
        record = rules.stage_record(
            core, role, status=status, line=line, output=output, error=error
        ).model_copy(update={"child": child})
        if status == "failed":
            core.failure = f"{role.name}: {error}"
        rules.end_stage(core, record, output, canonical=read.canonical if read else None)
        count_stage(role.role, status)
        self.record_event(
            "stage_finished",
            stage=role.name,
            role=role.role,
            status=status,
            text=(line or error or "")[:200] or None,
            tokens=record.tokens,
            child=child,
        )

    def _may_write(self, role: RoleDefinition) -> bool:
        names = set(self.core.seats[role.name].tools)
        return any(
            term.access in {"write", "execute"}
            for term in self.core.all_terms
            if term.name in names
        )

    async def _question_answered(self) -> bool:
        """Have the stage's question answered; False when the stage is over instead."""
        core, role, asked = self.core, self.role, self.core.question
        if asked is None:
            return True
        if role.on_question == "default":
            return await self._urged(role)
        kind = "blocked" if asked.kind == "blocked" else "question"
        stands = "is blocked" if kind == "blocked" else "asks"
        prompt = f"The stage {role.name} ({role.role}) {stands}: {asked.text or 'it cannot go on'}"
        gate = await self.ask(kind, prompt, free_text=True)
        answer = gate.answer if gate is not None else None
        if gate is None or answer is None:
            return await self._unanswered(role, self._ending())
        if expired_to_end(gate):
            ending = Ending(outcome="unanswered", reason="gate_expired", detail=prompt[:200])
            return await self._unanswered(role, ending)
        said = " ".join(part for part in (answer.choice, answer.text) if part)
        if kind == "blocked":
            return await self._unblocked(role, answer.choice == "retry", answer.text)
        core.question = None
        told = answer_text(said, expired=answer.expired)
        core.turn.entries = [SayEntry(type="say", text=told, pinned=True)]
        return True

    async def _urged(self, role: RoleDefinition) -> bool:
        """Nobody is to be asked: the stage decides, or the run ends after it was told twice."""
        core = self.core
        if core.urged >= TIMES_URGED:
            text = core.question.text if core.question else ""
            ending = Ending(outcome="blocked", reason="blocked", detail=f"{role.name}: {text}")
            return await self._unanswered(role, ending)
        core.question, core.urged = None, core.urged + 1
        core.turn.entries = [SayEntry(type="say", text=DECIDE_YOURSELF, pinned=True)]
        return True

    async def _unblocked(self, role: RoleDefinition, again: bool, note: str | None) -> bool:
        """Begin the stage anew with what the person said, or end."""
        core = self.core
        if not again:
            text = core.question.text if core.question else ""
            ending = Ending(outcome="blocked", reason="blocked", detail=f"{role.name}: {text}")
            return await self._unanswered(role, ending)
        core.question, core.answer, core.attempt = None, note, core.attempt + 1
        self._begin_stage(role)
        return True

    async def _unanswered(self, role: RoleDefinition, ending: Ending | None) -> bool:
        core, asked = self.core, self.core.question
        core.cut, core.question = ending, None
        status: StageStatus = "blocked" if ending and ending.outcome == "blocked" else "cut"
        await self.end_stage(role, status, error=asked.text if asked else None)
        return False

    def seats(self) -> dict[str, StageTools]:
        """What each stage may be offered."""
        return seat_tools(self.definition, self.spec.tools)

    def seat_orders(self, report: OpenWorkspaceReport) -> dict[str, StageSetup]:
        """A frame for each stage."""
        return {
            role.name: StageSetup(
                system=stage_system(role),
                grant=report.seats[role.name],
                extra=stage_extra(self.snapshot_of, role).model_dump(mode="json"),
            )
            for role in seated(self.definition)
        }

    def belongs(self) -> tuple[str, str]:
        """Session and project, as they were settled when the run started."""
        return self.spec.roles.session or "", self.spec.roles.project or ""

    def admitted(self, report: OpenWorkspaceReport) -> None:
        """Remember the tools of each stage."""
        core = self.core
        core.all_terms = list(report.terms)
        core.seats = {
            name: StageBinding(frame="", tools=grant.allowed)
            for name, grant in report.seats.items()
        }

    def take_seats(self, report: OpenRunReport) -> None:
        """Remember the frames of the stages, and the run's own."""
        core = self.core
        core.seats = {
            name: seat.model_copy(
                update={
                    "frame": report.seats[name].frame,
                    "system_tokens": report.seats[name].system_tokens,
                    "task_tokens": report.seats[name].task_tokens,
                }
            )
            for name, seat in core.seats.items()
        }
        core.seats[BASE] = StageBinding(frame=report.frame, task_tokens=report.task_tokens)

    def chain(self, role: str) -> tuple[str, ...]:
        """The models of the stage in progress; all others are the run's."""
        if self._is_staging(role):
            return stage_chain(self._working, super().chain("executor"))
        return super().chain(role)

    def seat(self, role: str) -> str:
        """A stage with models of its own fails over by itself."""
        if not self._is_staging(role):
            return role
        return f"stage {self._working.name}" if self._working.models else "executor"

    def _is_staging(self, role: str) -> bool:
        at_work = self.core.turning or self.core.doing == "stage" or self.core.reviewing
        return at_work and role == self._working.role

    @property
    def _working(self) -> RoleDefinition:
        return self.definition.gate if self.core.reviewing else self.role

    def more_chains(self) -> dict[str, tuple[str, ...]]:
        """The models that stages bring."""
        return {f"stage {role.name}": role.models for role in self.definition.roles if role.models}

    def limits_of(self, state: TurnState, turns: Turns, *, role: str) -> Limits:
        """A stage that used up its share of the tokens makes no further turn of tools.

        Guidance that comes while it gives its last word is for the next stage.
        """
        limits = super().limits_of(state, turns, role=role)
        used = rules.share_used(self.core, self.role)
        return limits.model_copy(update={"share_used": used, "inputs_waiting": False})

    def on_offer(self, state: TurnState) -> tuple[str, ...]:
        """A model that cannot choose tools gets none, whatever its role may use."""
        names = super().on_offer(state)
        return names if self.core.cards[self.model_of(self.role.role)].tools else ()

    async def wait_or_continue_as_new(self) -> None:
        """A pause takes effect after the stage; the history may be rolled inside it."""
        if self.core.turning and self.core.question is None:
            await self.continue_as_new_if_due()
        else:
            await super().wait_or_continue_as_new()

    async def wait_while_paused(self) -> bool:
        """Inside a stage nothing is held up."""
        return False if self.core.turning else await super().wait_while_paused()

    def begin_iteration(self, state: TurnState) -> None:
        """A turn inside a stage: the role loop counts its own iterations."""
        state.iteration += 1

    def complete_iteration(
        self, state: TurnState, *, break_reason: str | None, error: str | None = None
    ) -> None:
        """Turns share the stage's record; only the reason is kept."""
        if state.record is not None and break_reason is not None:
            state.record = state.record.model_copy(update={"break_reason": break_reason})
