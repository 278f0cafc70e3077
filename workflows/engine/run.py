"""A run as all parts of its loop share it: input, specification, state, and what people see.

Each kind of loop has a subclass of `Run` that narrows the specification and the state. It adds what
only that kind knows: its iteration, its plan, what an amended specification changes.
"""

from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

from pydantic import JsonValue
from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey, SearchAttributeUpdate

from perdure.domain.budget import accounting as budgets
from perdure.domain.foundation.base import share_field_names
from perdure.domain.foundation.names import MEMO_GOAL_CHARACTERS, SEARCH_ATTRIBUTES
from perdure.domain.foundation.redaction import redacted
from perdure.domain.run.control import Phase
from perdure.domain.run.events import EventType
from perdure.domain.run.iteration_record import counted, lacking
from perdure.domain.run.messages import Amend, AnyMessage
from perdure.domain.run.result import RunResult
from perdure.domain.run.spec import CommonSpec, LoopInput
from perdure.domain.run.state import RECORDS_KEPT, LoopState
from perdure.domain.run.status import RunStatus, StageNow, StageResult
from perdure.domain.run.status_views import panel, search_attributes, status_of, told_label
from perdure.domain.specs import output_schema_of
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending

GOAL = "goal"
SpecT = TypeVar("SpecT", bound=CommonSpec, covariant=True)
StateT = TypeVar("StateT", bound=LoopState, covariant=True)

AnyUpdate = SearchAttributeUpdate[str] | SearchAttributeUpdate[int] | SearchAttributeUpdate[float]


class Run(Generic[SpecT, StateT]):
    """Identity, specification and state of a run; ids and counters, never a conversation.

    Only `state` continues as new. The rest belongs to this execution: the messages `handled`, the
    steps started, whether the `panel_is_stale`. A stage that continue-as-new must not cut in two
    sets `in_one_piece`. `edits` of the specification wait to be stored.
    """

    takes_input = True

    def __init__(
        self, given: LoopInput, *, kind: str, spec: SpecT, state: StateT | None, fresh: StateT
    ) -> None:
        self.given = given
        self.id = given.run
        self.site = given.site
        self.kind = kind
        self.spec = spec
        self.is_fresh = state is None
        self.state: StateT = fresh if state is None else state
        if given.made_at is not None:
            # The clock of the host that made the state may be wrong, and deadlines go by ours.
            self.state.started_at += workflow.now() - given.made_at
        if given.beforehand is not None:
            self.state.control, self.state.ring = given.beforehand.control, given.beforehand.ring
        self.handled = 0
        self.panel_is_stale = False
        self.steps_started = 0
        self.in_one_piece = False
        self.deadline_passed = False
        self.shown: RunResult | None = None
        self.unsaved_files: tuple[str, ...] = ()
        # Not in the state: search attributes survive continue-as-new, and setting them once more in
        # the next execution costs a single event.
        self._published: dict[str, object] = {}
        self._has_new_goal = False
        self.edits: tuple[Amend, ...] = ()

    @property
    def iteration(self) -> int:
        """The iteration in progress; 0 before the first."""
        raise NotImplementedError

    @property
    def iteration_limit(self) -> int | None:
        """The largest number of iterations; None if there is no limit."""
        raise NotImplementedError

    @property
    def in_counted_iteration(self) -> bool:
        """Whether an iteration is in progress that was counted at its start."""
        return False

    @property
    def mid_stage(self) -> bool:
        """Whether a pause has to wait until the stage in progress is over."""
        return False

    def stage_now(self) -> StageNow | None:
        """The stage in progress; only runs of roles have stages."""
        return None

    def stage_results(self) -> tuple[StageResult, ...]:
        """What the newest finished stages said; only runs of roles have stages."""
        return ()

    def parts(self) -> tuple[tuple[str, bool, str], ...]:
        """Parts of the output with whether they pass; empty where there are none."""
        return ()

    def plan_lines(self) -> tuple[str, ...]:
        """The plan of the run, one line a step; empty where there is none."""
        return ()

    def iteration_state(self) -> dict[str, JsonValue] | None:
        """The state from which `fork` can continue the newest iteration; None: its transcript."""
        return None

    def last_state(self) -> dict[str, JsonValue] | None:
        """The state from which an ended run can continue; None if this kind cannot."""
        return None

    def message_refusal(self, message: AnyMessage) -> str | None:
        """Why this kind of loop refuses a message now; None if it accepts it."""
        return None

    def edit(self, message: Amend) -> None:
        """React to an amended specification, whose edits are to be stored."""
        edit = Amend(
            goal=message.goal, max_iterations=message.max_iterations, metadata=message.metadata
        )
        self.edits = (*self.edits, edit)
        if message.goal is not None:
            self._has_new_goal = True
            workflow.upsert_memo({GOAL: _memo_goal(message.goal)})

    def memo(self) -> dict[str, RawValue | str] | None:
        """The memo of the next execution where the goal was changed; None leaves it to the server.

        The server takes the memo of the start again. All but the goal is passed on unread, for a
        client may have written it with a codec or a converter of its own.
        """
        if not self._has_new_goal:
            return None
        kept = workflow.info().raw_memo
        passed = {name: RawValue(value) for name, value in kept.items() if name != GOAL}
        return passed | {GOAL: _memo_goal(self.spec.goal)}

    def take_back(self, texts: Sequence[str]) -> None:
        """React to withdrawn guidance; prompts that are built anew simply leave it out."""

    @property
    def wall_time(self) -> float:
        """Seconds since the run began, over all its executions."""
        return (workflow.now() - self.state.started_at).total_seconds()

    @property
    def active_time_left(self) -> float | None:
        """Remaining active time in seconds, or None when unlimited; it travels with each step."""
        left = self.state.budget.remaining("active_time")
        return None if left is None else float(left)

    @property
    def structured(self) -> bool:
        """Whether the answer must match an output schema."""
        return output_schema_of(self.spec) is not None

    @property
    def interruption(self) -> str | None:
        """Why a step in flight must end now, or None."""
        if self.state.control.stop == "now":
            return "stop"
        return "wall_time" if self.deadline_passed else None

    def demanded_ending(self) -> Ending | None:
        """The ending that a person, the parent or the deadline demands; None if none does."""
        if self.state.control.stop is not None:
            cancelled = self.state.control.stopped_by == "cancellation"
            reason = "parent_closed" if cancelled and self.site.parent else "stopped"
            return Ending(outcome="stopped", reason=reason)
        if self.deadline_passed:
            return Ending(outcome="deadline", reason="wall_time")
        return None

    def ending(self) -> Ending | None:
        """Why the run must end now: somebody demands it, or its time is spent."""
        told = self.demanded_ending()
        if told is not None:
            return told
        if self._time_spent("wall_time"):
            return Ending(outcome="deadline", reason="wall_time")
        if self._time_spent("active_time"):
            return Ending(outcome="deadline", reason="active_time")
        return None

    def _time_spent(self, dimension: budgets.Dimension) -> bool:
        left = self.state.budget.remaining(dimension, wall_time=self.wall_time)
        return left is not None and left <= 0

    def next_input(self) -> LoopInput:
        further = {
            "spec": self.spec,
            "state": self.state,
            "started_at": self.state.started_at,
            "chain": workflow.info().first_execution_run_id,
        }
        # What was said beforehand is part of the state by now, and so is when it was made.
        return self.given.model_copy(update={**further, "beforehand": None, "made_at": None})

    def next_activity_id(self) -> str:
        """A fresh id; with the execution's id it is the journal key of a model call."""
        # A counter of the execution, not a uuid: the same on every replay, and short in every
        # event.
        self.steps_started += 1
        return f"s{self.steps_started}"

    def record_event(self, event: EventType, **data: object) -> None:
        """Add an event to the run's event buffer."""
        self.state.ring = self.state.ring.note(
            event,
            at=workflow.now(),
            run=self.id,
            iteration=self.iteration,
            data={name: value for name, value in data.items() if value is not None},  # type: ignore[misc]
        )

    def append_record(self, record: IterationRecord) -> None:
        """Remember a finished iteration among the newest."""
        # Bounded, because the state travels through every continue-as-new. The store has all
        # records.
        self.state.records = [*self.state.records, share_field_names(record)][-RECORDS_KEPT:]
        self.state.record_count = max(self.state.record_count, record.index)
        if self.spec.hooks.on_iteration:
            self.state.unhooked = [*self.state.unhooked, record.index]
        self.record_event(
            "iteration_completed",
            decision=record.decision,
            score=record.score,
            evaluation=record.evaluation,
            saved=record.saved,
            adaptation=record.adaptation,
            adapted=record.adapted or None,
            missing=lacking(record) or None,
            counted=counted(record) or None,
        )

    def apply_budget(self, budget: budgets.Budget) -> None:
        """Take a changed budget; warn once per dimension when it passes 80 %."""
        self.state.budget, passed = budgets.new_warnings(budget, wall_time=self.wall_time)
        for dimension in passed:
            self.record_event("budget_warning", dimension=dimension)

    def note_folder_tree(self, tree: str | None) -> None:
        """Note what the working folder holds now; None if nobody looked."""
        if self.state.hosted is not None:
            self.state.hosted = self.state.hosted.with_tree(tree)

    def set_phase(self, phase: Phase) -> None:
        """Change the phase that people see."""
        self.state.phase = phase
        self.panel_is_stale = True

    def set_step(self, step: str | None) -> None:
        """Name the step in flight for status and panel."""
        self.state.step = step
        self.state.step_since = workflow.now() if step else None
        self.panel_is_stale = True

    def status(self) -> RunStatus:
        """The run's status, as every interface shows it."""
        return status_of(
            self.state,
            run=self.id,
            kind=self.kind,
            spec=self.spec,
            now=workflow.now(),
            iteration=self.iteration,
            limit=self.iteration_limit,
            parts=self.parts(),
            plan=self.plan_lines(),
            stage=self.stage_now(),
            stages=self.stage_results(),
        )

    def sync_visibility(self) -> None:
        """Bring search attributes and panel up to date; only what changed costs an event."""
        label = told_label(self.spec.metadata.label, mark=self.site.label_mark)
        wanted = search_attributes(
            self.state, kind=self.kind, label=label, iteration=self.iteration
        )
        # An upsert is an event in the history, also when nothing changes.
        changed = {k: v for k, v in wanted.items() if self._published.get(k) != v}
        if changed:
            upsert(changed)
            self._published.update(changed)
        self.panel_is_stale = True

    def show_panel(self) -> None:
        """Refresh the panel of the Web UI; this costs no history.

        A change only sets `panel_is_stale`, and the panel is drawn once at the end of the task.
        """
        # Current details are not part of the history, so they may be set as often as wanted.
        told = panel(
            self.state,
            run=self.id,
            spec=self.spec,
            iteration=self.iteration,
            limit=self.iteration_limit,
            result=self.shown,
        )
        workflow.set_current_details(redacted(told))


def _memo_goal(goal: str) -> str:
    return " ".join(goal.split())[:MEMO_GOAL_CHARACTERS]


AnyRun = Run[CommonSpec, LoopState]


def upsert(values: Mapping[str, str | int | float | None]) -> None:
    """Upsert the named attributes; None unsets one."""
    workflow.upsert_search_attributes(
        [_update(name, value) for name, value in sorted(values.items())]
    )


def _update(name: str, value: str | float | None) -> AnyUpdate:
    match SEARCH_ATTRIBUTES[name]:
        case "Keyword":
            words = SearchAttributeKey.for_keyword(name)
            return words.value_unset() if value is None else words.value_set(str(value))
        case "Int":
            whole = SearchAttributeKey.for_int(name)
            return whole.value_unset() if value is None else whole.value_set(int(value))
        case "Double":
            number = SearchAttributeKey.for_float(name)
            return number.value_unset() if value is None else number.value_set(float(value))
