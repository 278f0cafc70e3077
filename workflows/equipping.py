"""The tools of a manager's run: those that its workers asked for, made between two iterations."""

from collections.abc import Sequence

from perdure.domain.agent.turn import Ending
from perdure.domain.delegation.settings import ToolsFactorySettings
from perdure.domain.delegation.tools.toolbox import Toolbox, WantedTool
from workflows.briefing import Briefing
from workflows.toolmaking import ToolMaking


# `Briefing` narrows what both bases declare.
class Equipping(Briefing, ToolMaking):  # pyright: ignore[reportIncompatibleVariableOverride]
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
