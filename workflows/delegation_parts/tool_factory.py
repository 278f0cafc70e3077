"""Generated tools: validate a worker's draft, repair it, ask a person, pin it by hash.

A tool that cannot be made never ends the run; the run goes on without it.
"""

from collections.abc import Sequence

from temporalio import workflow

from perdure.activities.generated_tools import MakeTool
from perdure.domain.budget import accounting as budgets
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.generated_tools.messages import (
    MakeToolReport,
    MakeToolRequest,
    RepairToolReport,
    ToolsFactorySettings,
)
from perdure.domain.generated_tools.rejections import ToolRefused
from perdure.domain.generated_tools.tool_registry import (
    PinnedTool,
    Toolbox,
    WantedTool,
    approval_question,
)
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.turn import Ending
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.human_input import expired_to_end
from perdure.workflows.engine.metrics import count_tool
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.step_runner import Completed, StepFailed
from perdure.workflows.engine.structured_replies import tool_repair

WHY_CHARACTERS = 200
# Patch: a run that began with the question of another execution waited for it for ever.
ASKS_ANEW = "a question about a tool that nobody sees is asked anew"


class ToolFactory:
    """Makes tools; the `Toolbox` in the run's state keeps them."""

    def __init__(self, run: DelegationRun, engine: Engine) -> None:
        self.run = run
        self.steps = engine.steps
        self.people = engine.people
        self.retries = engine.retries
        self.models = engine.models

    @property
    def settings(self) -> ToolsFactorySettings:
        """Whether and how many tools may be made."""
        return self.run.spec.delegation.tools_factory

    def _keep(self, toolbox: Toolbox) -> None:
        self.run.state.toolbox = toolbox

    def want_tools(self, worker: str, drafts: Sequence[str]) -> None:
        asked = [WantedTool(worker=worker, draft=draft) for draft in drafts]
        self.run.state.wanted = [*self.run.state.wanted, *asked]

    async def make_wanted(self) -> Ending | None:
        """Make the queued tools; returns why the run must end, if it must.

        This happens between two iterations, so the run may continue as new while a person decides.
        """
        while self.run.state.wanted:
            first, *others = self.run.state.wanted
            ending = await self.make_tools(first.worker, (first.draft,))
            if ending is not None:
                return ending
            # Removed after the tool is made, not before: continue-as-new in between must find it.
            self.run.state.wanted = others
        return None

    async def make_tools(self, worker: str, drafts: Sequence[str]) -> Ending | None:
        """Make tools of the drafts at these addresses; returns why the run must end, if it must.

        May be called again with the same drafts: what was handled is not handled twice.
        """
        for draft in drafts:
            # A run that continued as new while a person was asked comes here again with the same
            # drafts.
            if draft in self.run.state.toolbox.handled:
                continue
            ending = self.run.ending() or await self._make(worker, draft)
            if ending is not None:
                return ending
            self._keep(self.run.state.toolbox.with_handled_draft(draft))
        return None

    async def _make(self, worker: str, draft: str) -> Ending | None:
        given = draft
        self._keep(self.run.state.toolbox.with_begun_draft(given))
        # A run that continued as new while a person was asked goes on with the version that it
        # asked about: repaired once more it would be other code, and the answer lost.
        draft, repairs = self.run.state.toolbox.under_way[given]
        while True:
            if await self.steps.wait_while_paused():
                return self.run.ending()
            done = await self._validate_draft(worker, draft)
            if isinstance(done, StepFailed):
                lost = f"a tool of {worker}"
                self.run.record_event(
                    "tool_refused",
                    worker=worker,
                    tool=lost,
                    why=clipped_line(done.message, WHY_CHARACTERS),
                )
                return self.run.ending()
            report = done.report
            # A refusal is a normal result here, not an error: the repair model learns from its
            # words.
            if report.refused is None:
                return await self._admit(worker, report, repaired=repairs > 0)
            self._note_refusal(worker, report.name, report.refused)
            if not report.refused.repairable or repairs >= self.settings.repairs:
                return None
            repairs += 1
            repaired = await self._repair(worker, draft, report)
            if repaired is None:
                return self.run.ending()
            draft = repaired
            self._keep(self.run.state.toolbox.with_repaired_draft(given, draft))

    async def _validate_draft(
        self, worker: str, draft: str
    ) -> Completed[MakeToolReport] | StepFailed:
        self.run.set_step(f"make a tool for {worker}")
        request = MakeToolRequest(
            run=self.run.id,
            root=self.run.site.root or self.run.id,
            worker=worker,
            draft=draft,
            settings=self.settings,
            taken=self.run.state.toolbox.pinned,
            makers=self.run.state.toolbox.makers,
            denied=self.run.state.toolbox.denied,
        )
        done = await self.retries.workspace_step(
            MakeTool.make_tool,
            lambda: request,
            summary=f"make a tool for {worker} (iteration {self.run.iteration})",
            # It needs no file of the run, and so not the host that has them.
            in_folder=False,
        )
        self.run.set_step(None)
        if isinstance(done, Completed):
            self.run.apply_budget(
                budgets.add_active_time(self.run.state.budget, done.report.seconds)
            )
        return done

    async def _repair(self, worker: str, draft: str, report: MakeToolReport) -> str | None:
        """Ask a model to repair a draft; returns the new address, None to give up."""
        question = report.question
        if question is None:
            return None
        self._keep(self.run.state.toolbox.with_repair_attempt())
        count_tool("repair")
        called = await self.models.call_model(
            ModelCallSpec(
                role="repair",
                phase="working",
                summary=f"repair {report.name} for {worker} (iteration {self.run.iteration})",
                entries=(SayEntry(type="say", ref=question.hash, tokens=question.tokens.total),),
                structured=tool_repair(draft),
            )
        )
        if not isinstance(called, RepairToolReport) or called.problems:
            return None
        return called.draft or None

    async def _admit(self, worker: str, report: MakeToolReport, *, repaired: bool) -> Ending | None:
        """Offer a tool from now on, after a person approved it if the run demands that."""
        known = self.run.state.toolbox.tools.get(report.name)
        new = known is None or known.hash != report.hash
        if new and self.settings.approve and not report.approved:
            ending, allowed = await self._ask_for_approval(worker, report)
            if not allowed:
                return ending
        # By hash: a later version of the tool is another tool, and needs an approval of its own.
        pinned = PinnedTool(hash=report.hash, description=report.description, worker=worker)
        self._keep(
            self.run.state.toolbox.with_tool(
                report.name, pinned, cached=report.cached, repaired=repaired
            )
        )
        count_tool("cached" if report.cached else "created")
        if new:
            self.run.record_event(
                "tool_created",
                tool=report.name,
                hash=report.hash,
                worker=worker,
                cached=report.cached,
                repaired=repaired,
            )
        return None

    async def _ask_for_approval(
        self, worker: str, report: MakeToolReport
    ) -> tuple[Ending | None, bool]:
        """Ask a person to approve this hash; finds the open question after continue-as-new."""
        gate_id = self.run.state.toolbox.gates.get(report.hash)
        # A retry begins with a stored state, whose open questions ended with their execution.
        lost = gate_id is not None and gate_id not in self.run.state.control.gates
        if lost and workflow.patched(ASKS_ANEW):
            gate_id = None
        if gate_id is None:
            gate_id = self.people.open_gate(
                "tool_approval",
                approval_question(report, worker=worker),
                free_text=True,
                args_hash=report.hash,
                subject=report.name,
            ).id
            self._keep(self.run.state.toolbox.with_gate(report.hash, gate_id))
        gate = await self.people.wait_for_answer(gate_id)
        if gate is None or gate.answer is None:
            return self.run.ending(), False
        self._keep(self.run.state.toolbox.with_gate(report.hash, None))
        if expired_to_end(gate):
            return Ending(outcome="unanswered", reason="gate_expired"), False
        if gate.answer.choice == "approve":
            return None, True
        why = gate.answer.text or f"denied by {gate.answer.by}"
        self._keep(self.run.state.toolbox.with_failure("freeze").with_denial(report.hash))
        self.run.record_event(
            "tool_refused",
            worker=worker,
            tool=report.name,
            stage="freeze",
            why=clipped_line(why, WHY_CHARACTERS),
        )
        return None, False

    def _note_refusal(self, worker: str, name: str, refused: ToolRefused) -> None:
        self._keep(self.run.state.toolbox.with_failure(refused.stage))
        count_tool("refused")
        self.run.record_event(
            "tool_refused",
            worker=worker,
            tool=name,
            stage=refused.stage,
            code=refused.code,
            why=clipped_line(refused.message, WHY_CHARACTERS),
        )
