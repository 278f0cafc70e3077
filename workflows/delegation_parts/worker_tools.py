"""The tools of a manager's run: those that its workers asked for, made between two iterations."""

from collections.abc import Sequence

from perdure.domain.generated_tools.limits import ToolsFactorySettings
from perdure.domain.generated_tools.tool_registry import Toolbox, WantedTool
from perdure.domain.turns.turn import Ending
from perdure.workflows.delegation_parts.tool_factory import ToolFactory
from perdure.workflows.delegation_parts.worker_inputs import WorkerInputs


# `Briefing` narrows what both bases declare.
class WorkerTools(WorkerInputs, ToolFactory):  # pyright: ignore[reportIncompatibleVariableOverride]
    """Adds made tools to a manager's loop, whose state holds them."""

    @property
    def factory(self) -> ToolsFactorySettings:
        """Whether and how many tools may be made."""
        return self.spec.delegation.tools_factory

    @property
    def toolbox(self) -> Toolbox:
        """The tools so far."""
        return self.core.toolbox

    def keep_toolbox(self, toolbox: Toolbox) -> None:
        """Put a changed toolbox into the state."""
        self.core.toolbox = toolbox

    def want_tools(self, worker: str, drafts: Sequence[str]) -> None:
        """Note what a worker asks for."""
        asked = [WantedTool(worker=worker, draft=draft) for draft in drafts]
        self.core.wanted = [*self.core.wanted, *asked]

    async def make_wanted(self) -> Ending | None:
        """Make what workers asked for; returns why the run must end.

        It stands between two iterations, so that a question to people may outlast this execution.
        """
        while self.core.wanted:
            first, *others = self.core.wanted
            ending = await self.make_tools(first.worker, (first.draft,))
            if ending is not None:
                return ending
            self.core.wanted = others
        return None
