"""The port `MadeToolStore`: tools made at run time, by their hash."""

from collections.abc import Sequence
from typing import Protocol

from perdure.domain.generated_tools.record import GeneratedTool, MadeState, ToolAuthor


class MadeToolStore(Protocol):
    """Keeps made tools and who made them. Every write may be repeated."""

    async def keep(self, tool: GeneratedTool, maker: ToolAuthor) -> GeneratedTool:
        """Add a tool, or only its maker when the hash is there; returns what stands.

        What a person decided stays; the version that validated it becomes the newer one.
        """
        ...

    async def get(self, hash: str) -> GeneratedTool | None:
        """The tool of exactly this hash, or None."""
        ...

    async def find(self, name_or_hash: str) -> Sequence[GeneratedTool]:
        """Tools of that name, or whose hash begins so; the newest first."""
        ...

    async def list(
        self, *, state: MadeState | None = None, root: str | None = None, limit: int = 100
    ) -> Sequence[GeneratedTool]:
        """Tools in a state, made in the tree of a run; the newest first."""
        ...

    async def makers(self, hash: str) -> Sequence[ToolAuthor]:
        """Who made a tool, the first one first."""
        ...

    async def decide(self, tool: GeneratedTool) -> None:
        """Write what a person decided; raises `NotFound` when the hash is not there."""
        ...
