"""Asking the manager for its next decision."""

from collections.abc import Mapping, Sequence

from temporalio import workflow

from perdure.activities.manager import Shelve
from perdure.domain.budget import accounting as budgets
from perdure.domain.delegation.apply_decision import after_unreadable_reply
from perdure.domain.delegation.messages import ManageReport
from perdure.domain.delegation.next_step import End
from perdure.domain.delegation.prompts import MANAGER_SYSTEM, ManagerView, manager_prompt
from perdure.domain.delegation.schemas import decision_schema
from perdure.domain.delegation.state import CurrentIteration
from perdure.domain.foundation.tokens import estimate
from perdure.domain.run.activity_messages import ShelveRequest
from perdure.domain.run.control import note_refused
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.guidance import (
    PendingInput,
    in_force,
    not_read,
    with_added,
    without_lost,
)
from perdure.domain.turns.prompts import input_address
from perdure.domain.turns.records import IterationRecord
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.structured_replies import manager_decision

DECISION_TOKENS = 8_192
FIXED_TOKENS = estimate(MANAGER_SYSTEM).total + estimate(str(decision_schema())).total
# Patches: a long text that was added before the manager was asked again was never named to it.
ADDED_MEANWHILE = "what was added before the manager is asked again is an input"
# When something was taken back during a call, what was added during it counted as read.
READ_BY_NAME = "what a manager has read is told by name"
WRAP_UP = "The budget is spent. Complete now: say in the final result what there is."


class ManagerDecisions:
    """Asks the manager for its next decision."""

    def __init__(self, run: DelegationRun, engine: Engine) -> None:
        self.run = run
        self.limits = engine.limits
        self.fitting = engine.fitting
        self.models = engine.models

    async def manage(self) -> None:
        """Ask the manager; if its reply is unreadable, ask again and say why."""
        state = self.run.state
        if state.turnover.record is None:  # else the run continued as new while people were asked
            self._begin()
        self.run.set_phase("managing")
        self.run.sync_visibility()
        problems: tuple[str, ...] = ()
        await self._add_inputs()
        while state.turnover.decision is None and state.turnover.ending is None:
            # Noted before the call: what people say during it is not in its prompt, and must stay
            # unread.
            read = tuple(state.control.inputs), tuple(state.control.guidance)
            called = await self.models.call_model(self._call_spec(problems))
            # Remember where the manager's last prompt and reply are stored.
            if isinstance(called, ManageReport) and called.call.head is not None:
                self.run.state.turnover.transcript = called.call.head.hash
            if isinstance(called, ManageReport) and called.decision is not None:
                state.turnover.decision, state.turnover.final = called.decision, called.final
                # The call stored them on its way; until it has answered they may have to go again.
                state.unwritten = []
                self._heard_by_manager(*read)
            elif isinstance(called, ManageReport):
                state.course, following = after_unreadable_reply(state.course, called.problems)
                problems = called.problems
                if isinstance(following, End):
                    state.turnover.ending = self.run.end_by(following.verdict)
            elif not isinstance(
                called, budgets.LimitReached
            ) or not await self.limits.ask_for_budget(called):
                state.turnover.ending = self.limits.ending_of(called)
            if state.turnover.decision is None and state.turnover.ending is None:
                await self._add_inputs(again=True)

    def _heard_by_manager(self, inputs: Sequence[PendingInput], guidance: Sequence[str]) -> None:
        """Mark as read what the prompt contained; the rest waits for the next decision."""
        control = self.run.state.control
        left = not_read(control.inputs, inputs), not_read(control.guidance, guidance)
        by_place = control.inputs[len(inputs) :], control.guidance[len(guidance) :]
        is_same = left == by_place or not workflow.patched(READ_BY_NAME)
        control.inputs, control.guidance = by_place if is_same else left

    async def _add_inputs(self, *, again: bool = False) -> None:
        """Turn long texts that people added into inputs of the task, which workers can inherit.

        `again`: the manager is asked once more, after a person may have been waited for.
        """
        state = self.run.state
        new = with_added(state.inputs, state.control.inputs)
        fresh = {name: value for name, value in new.items() if name not in state.inputs}
        if not fresh or (again and not workflow.patched(ADDED_MEANWHILE)):
            return
        report = await workflow.execute_activity_method(
            Shelve.shelve,
            ShelveRequest(values=fresh),
            **activity_options.store_step(self.run.site, summary="put added texts by"),
        )
        self.run.take_inputs(report)
        if report.values:
            names = ", ".join(report.values)
            self.run.inform(f"People added a text, which holds like the task: input {names}.")
        self._leave_out({input_address(fresh[name]): why for name, why in report.lost.items()})

    def _leave_out(self, lost: Mapping[str | None, str]) -> None:
        """Take texts for refused that nobody can read: no message may fail a run."""
        control = self.run.state.control
        control.inputs = without_lost(control.inputs, lost)
        for why in lost.values():
            note_refused(control, "add_input", why)
            self.run.panel_is_stale = True

    def _begin(self) -> None:
        state = self.run.state
        state.course = state.course.with_next_iteration()
        # Before the iteration is counted: a state that goes back to here does not have it.
        began = state.budget.spent
        state.budget = budgets.count(state.budget, iterations=1)
        record = IterationRecord(index=self.run.iteration, started_at=workflow.now())
        state.turnover = CurrentIteration(began=began, record=record)
        self.run.record_event("iteration_started")

    def _call_spec(self, problems: tuple[str, ...], *, wrap_up: bool = False) -> ModelCallSpec:
        state = self.run.state
        said = in_force(state.control.standing, *state.control.guidance)
        guidance = (*said, *([WRAP_UP] if wrap_up else []))
        prompt = manager_prompt(
            ManagerView(
                goal=self.run.spec.goal,
                course=state.course,
                settings=self.run.spec.delegation,
                rubric=self.run.spec.rubric,
                fraction_remaining=state.budget.fraction_remaining(wall_time=self.run.wall_time),
                inputs=state.shown,
                skills=state.shelf.catalog,
                tools=tuple(
                    dict.fromkeys((*(term.name for term in state.terms), *state.toolbox.tools))
                ),
                guidance=guidance,
                problems=problems,
            )
        )
        return ModelCallSpec(
            role="manager",
            phase="wrapping_up" if wrap_up else "managing",
            summary=f"manager (iteration {self.run.iteration})",
            entries=[*self._known(), SayEntry(type="say", text=prompt.text)],
            extra_tokens=FIXED_TOKENS,
            max_tokens=self.fitting.reply_tokens("manager", DECISION_TOKENS),
            tools_off=True,
            wrap_up=wrap_up,
            records=tuple(state.unwritten),
            # By its place in the prompt, so that history holds the rolling summary only once.
            structured=manager_decision((prompt.begin, prompt.end)),
        )

    def _known(self) -> list[SayEntry]:
        """What earlier runs learned: first in the prompt, so that the provider can cache it."""
        known = self.run.state.recalled
        if known is None:
            return []
        return [SayEntry(type="say", ref=known.hash, tokens=known.tokens.total)]

    async def wrap_up(self) -> None:
        """Make one last call, paid from the reserve: the manager sums up what there is."""
        state = self.run.state
        claimed = state.claimed is not None and state.claimed.complete
        # A run without usable work has nothing to wrap up, and one whose completion passed has its
        # final result already.
        if (
            state.frame is None
            or not state.course.usable
            or claimed
            or self.run.interruption is not None
        ):
            return
        self.run.set_phase("wrapping_up")
        called = await self.models.call_model(self._call_spec((), wrap_up=True))
        if isinstance(called, ManageReport) and called.final is not None and state.kept is not None:
            state.kept = state.kept.model_copy(update={"output": called.final})
