"""Making the tools that workers ask for: validate, repair, ask a person, pin by hash.

Whatever goes wrong with a tool stays between its worker and the repair model; a run goes on without
it.
"""

from abc import abstractmethod
from collections.abc import Sequence

from temporalio import workflow

from perdure.activities.generated_tools import MakeTool
from perdure.domain.budget import envelope as budgets
from perdure.domain.generated_tools.limits import ToolsFactorySettings
from perdure.domain.generated_tools.messages import (
    MakeToolReport,
    MakeToolRequest,
    RepairToolReport,
)
from perdure.domain.generated_tools.rejections import ToolRefused
from perdure.domain.generated_tools.tool_registry import PinnedTool, Toolbox, approval_question
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.base import expired_to_end
from perdure.workflows.engine.metrics import count_tool
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_caller import ModelCaller
from perdure.workflows.engine.step_runner import Completed, StepFailed
from perdure.workflows.engine.structured_replies import Repairing


class ToolFactory(ModelCaller):
    """Adds the making of tools to a loop, which owns the `Toolbox` in its state."""

    @property
    @abstractmethod
    def factory(self) -> ToolsFactorySettings:
        """Whether and how many tools may be made."""

    @property
    @abstractmethod
    def toolbox(self) -> Toolbox:
        """The tools so far."""

    @abstractmethod
    def keep_toolbox(self, toolbox: Toolbox) -> None:
        """Put a changed toolbox into the state."""

    async def make_tools(self, worker: str, drafts: Sequence[str]) -> Ending | None:
        """Take drafts, by their addresses, to their end; returns why the run must end.

        May be called again with the same drafts, as after a roll in the middle of a question: what
        was handled is not handled twice.
        """
        for draft in drafts:
            if draft in self.toolbox.handled:
                continue
            ending = self._ending() or await self._make(worker, draft)
            if ending is not None:
                return ending
            self.keep_toolbox(self.toolbox.done_with(draft))
        return None

    async def _make(self, worker: str, draft: str) -> Ending | None:
        self.keep_toolbox(self.toolbox.begun())
        repairs = 0
        while True:
            if await self.wait_while_paused():
                return self._ending()
            done = await self._validate_draft(worker, draft)
            if isinstance(done, StepFailed):
                lost = f"a tool of {worker}"
                self.record_event("tool_refused", worker=worker, tool=lost, why=done.message[:200])
                return self._ending()
            report = done.report
            if report.refused is None:
                return await self._admit(worker, report, repaired=repairs > 0)
            self._note_refusal(worker, report.name, report.refused)
            if not report.refused.repairable or repairs >= self.factory.repairs:
                return None
            repairs += 1
            repaired = await self._repair(worker, draft, report)
            if repaired is None:
                return self._ending()
            draft = repaired

    async def _validate_draft(
        self, worker: str, draft: str
    ) -> Completed[MakeToolReport] | StepFailed:
        self.set_step(f"make a tool for {worker}")
        request = MakeToolRequest(
            run=self.run_id,
            root=self.site.root or self.run_id,
            worker=worker,
            draft=draft,
            settings=self.factory,
            taken=self.toolbox.pinned,
            makers=self.toolbox.makers,
        )
        summary = f"make a tool for {worker} (iteration {self.iteration})"
        done = await self.outlasting(
            lambda activity_id: workflow.start_activity_method(
                MakeTool.make_tool,
                request,
                **activity_options.workspace_step(
                    self.site, activity_id=activity_id, summary=summary
                ),
            ),
            what=summary,
        )
        self.set_step(None)
        if isinstance(done, Completed):
            self.apply_budget(budgets.work(self.core.budget, done.report.seconds))
        return done

    async def _repair(self, worker: str, draft: str, report: MakeToolReport) -> str | None:
        """The address of the repaired draft; None when there is none, which ends the attempts."""
        question = report.question
        if question is None:
            return None
        self.keep_toolbox(self.toolbox.repairing())
        count_tool("repair")
        called = await self.call_model(
            ModelCallSpec(
                role="repair",
                phase="working",
                summary=f"repair {report.name} for {worker} (iteration {self.iteration})",
                entries=(SayEntry(type="say", ref=question.hash, tokens=question.tokens.total),),
                structured=Repairing(draft),
            )
        )
        if not isinstance(called, RepairToolReport) or called.problems:
            return None
        return called.draft or None

    async def _admit(self, worker: str, report: MakeToolReport, *, repaired: bool) -> Ending | None:
        """Offer a tool from now on, after a person said yes where the run asks for that."""
        known = self.toolbox.tools.get(report.name)
        new = known is None or known.hash != report.hash
        if new and self.factory.approve and not report.approved:
            ending, allowed = await self._approved(worker, report)
            if not allowed:
                return ending
        pinned = PinnedTool(hash=report.hash, description=report.description, worker=worker)
        self.keep_toolbox(
            self.toolbox.offered(report.name, pinned, cached=report.cached, repaired=repaired)
        )
        count_tool("cached" if report.cached else "created")
        if new:
            self.record_event(
                "tool_created",
                tool=report.name,
                hash=report.hash,
                worker=worker,
                cached=report.cached,
                repaired=repaired,
            )
        return None

    async def _approved(self, worker: str, report: MakeToolReport) -> tuple[Ending | None, bool]:
        """Ask a person about exactly this hash; an open question is found again after a roll."""
        gate_id = self.toolbox.gates.get(report.hash)
        if gate_id is None:
            gate_id = self.open_gate(
                "tool_approval",
                approval_question(report, worker=worker),
                free_text=True,
                args_hash=report.hash,
                subject=report.name,
            ).id
            self.keep_toolbox(self.toolbox.asked(report.hash, gate_id))
        gate = await self.answered(gate_id)
        if gate is None or gate.answer is None:
            return self._ending(), False
        self.keep_toolbox(self.toolbox.asked(report.hash, None))
        if expired_to_end(gate):
            return Ending(outcome="unanswered", reason="gate_expired"), False
        if gate.answer.choice == "approve":
            return None, True
        why = gate.answer.text or f"denied by {gate.answer.by}"
        self.keep_toolbox(self.toolbox.failed("freeze"))
        self.record_event(
            "tool_refused", worker=worker, tool=report.name, stage="freeze", why=why[:200]
        )
        return None, False

    def _note_refusal(self, worker: str, name: str, refused: ToolRefused) -> None:
        self.keep_toolbox(self.toolbox.failed(refused.stage))
        count_tool("refused")
        self.record_event(
            "tool_refused",
            worker=worker,
            tool=name,
            stage=refused.stage,
            code=refused.code,
            why=refused.message[:200],
        )
