"""Asking a manager what is to be done next, again where its reply could not be read."""

from temporalio import workflow

from perdure.activities.manager import Shelve
from perdure.domain.budget import envelope as budgets
from perdure.domain.delegation.apply_decision import unreadable
from perdure.domain.delegation.messages import ManageReport
from perdure.domain.delegation.next_step import End
from perdure.domain.delegation.prompts import MANAGER_SYSTEM, ManagerView, manager_prompt
from perdure.domain.delegation.schemas import decision_schema
from perdure.domain.delegation.state import CurrentIteration
from perdure.domain.evaluation.outcomes import RunEnd
from perdure.domain.foundation.tokens import estimate
from perdure.domain.run.activity_messages import ShelveRequest
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.guidance import in_force, with_added
from perdure.domain.turns.records import IterationRecord
from perdure.domain.turns.turn import Ending
from perdure.workflows.delegation_parts.deliverable_score import DeliverableScore
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.structured_replies import Managing

DECISION_TOKENS = 8_192
FIXED_TOKENS = estimate(MANAGER_SYSTEM).total + estimate(str(decision_schema())).total
WRAP_UP = "The budget is spent. Complete now: say in the final result what there is."


class ManagerDecisions(DeliverableScore):
    """Adds the manager's decisions to its loop."""

    async def manage(self) -> None:
        """Ask the manager; a reply that cannot be read is asked again with the reason."""
        core = self.core
        if core.turnover.record is None:  # else the run continued as new while people were asked
            self._begin()
        self.set_phase("managing")
        self.sync_visibility()
        problems: tuple[str, ...] = ()
        await self._add_inputs()
        while core.turnover.decision is None and core.turnover.ending is None:
            read = len(core.control.inputs), len(core.control.guidance)
            called = await self.call_model(self._asking(problems))
            if isinstance(called, ManageReport) and called.decision is not None:
                core.turnover.decision, core.turnover.final = called.decision, called.final
                core.unwritten = []
                self._heard_by_manager(*read)
            elif isinstance(called, ManageReport):
                core.course, following = unreadable(core.course, called.problems)
                problems = called.problems
                if isinstance(following, End):
                    core.turnover.ending = self.ended_by(following.verdict)
            elif not isinstance(called, budgets.LimitReached) or not await self.budget_raised(
                called
            ):
                core.turnover.ending = self.ending_of(called)

    def _heard_by_manager(self, inputs: int, guidance: int) -> None:
        """What its prompt told is read; what came during the call is for the next one."""
        control = self.core.control
        control.inputs, control.guidance = control.inputs[inputs:], control.guidance[guidance:]

    async def _add_inputs(self) -> None:
        """Long texts that people added become inputs of the task, which workers can inherit."""
        core = self.core
        new = with_added(core.inputs, core.control.inputs)
        fresh = {name: value for name, value in new.items() if name not in core.inputs}
        if not fresh:
            return
        report = await workflow.execute_activity_method(
            Shelve.shelve,
            ShelveRequest(values=fresh),
            **activity_options.store_step(self.site, summary="put added texts by"),
        )
        core.inputs, core.shown = {**core.inputs, **report.values}, {**core.shown, **report.shown}
        self.inform(f"People added a text, which holds like the task: input {', '.join(fresh)}.")

    def _begin(self) -> None:
        core = self.core
        core.course = core.course.begun()
        began = core.budget.spent
        core.budget = budgets.count(core.budget, iterations=1)
        record = IterationRecord(index=self.iteration, started_at=workflow.now())
        core.turnover = CurrentIteration(began=began, record=record)
        self.record_event("iteration_started")

    def _asking(self, problems: tuple[str, ...], *, wrap_up: bool = False) -> ModelCallSpec:
        core = self.core
        said = in_force(core.control.standing, *core.control.guidance)
        guidance = (*said, *([WRAP_UP] if wrap_up else []))
        text = manager_prompt(
            ManagerView(
                goal=self.spec.goal,
                course=core.course,
                settings=self.spec.delegation,
                rubric=self.spec.rubric,
                fraction_remaining=core.budget.fraction_remaining(wall_time=self.wall_time),
                inputs=core.shown,
                skills=core.shelf.catalog,
                tools=tuple(
                    dict.fromkeys((*(term.name for term in core.terms), *core.toolbox.tools))
                ),
                guidance=guidance,
                problems=problems,
            )
        )
        return ModelCallSpec(
            role="manager",
            phase="wrapping_up" if wrap_up else "managing",
            summary=f"manager (iteration {self.iteration})",
            entries=[*self._known(), SayEntry(type="say", text=text)],
            extra_tokens=FIXED_TOKENS,
            max_tokens=self.reply_tokens("manager", DECISION_TOKENS),
            tools_off=True,
            wrap_up=wrap_up,
            records=tuple(core.unwritten),
            structured=Managing(),
        )

    def _known(self) -> list[SayEntry]:
        """What earlier runs learned, before all that changes, so that a prompt cache reads it."""
        known = self.core.recalled
        if known is None:
            return []
        return [SayEntry(type="say", ref=known.hash, tokens=known.tokens.total)]

    async def wrap_up(self) -> None:
        """One call from the reserve: the manager says what there is."""
        core = self.core
        claimed = core.claimed is not None and core.claimed.complete
        if core.frame is None or not core.course.usable or claimed or self.interruption is not None:
            return
        self.set_phase("wrapping_up")
        called = await self.call_model(self._asking((), wrap_up=True))
        if isinstance(called, ManageReport) and called.final is not None and core.kept is not None:
            core.kept = core.kept.model_copy(update={"output": called.final})

    def ended_by(self, verdict: RunEnd) -> Ending:
        """The rules' verdict, whose sentence is kept for the result."""
        self.core.verdict = verdict.explanation
        return Ending(outcome=verdict.outcome, reason=verdict.reason)
