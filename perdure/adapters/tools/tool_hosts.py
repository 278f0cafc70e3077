"""All tools of a worker behind one host: our own, those of MCP servers, those made for a run.

Our own names come first, so that no other source can take the place of a tool that people know.
"""

from collections.abc import Sequence
from typing import Protocol

from pydantic import JsonValue

from perdure.domain.tools.definitions import (
    Rehearsal,
    ToolDefinition,
    ToolGrant,
    ToolInvocation,
    ToolOutput,
)


class ToolSource(Protocol):
    """Tools of one origin. Each checks the grant itself, and turns failures into outputs."""

    def serves(self, name: str, grant: ToolGrant) -> bool:
        """Whether this source runs the tool of that name for a run with this grant."""
        ...

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        """Run one tool inside its grant; cancellation is passed on."""
        ...

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        """What a call would meet and do, without doing it."""
        ...


class CataloguedTools(ToolSource, Protocol):
    """A source whose tools are the same for every run."""

    async def catalog(self) -> tuple[ToolDefinition, ...]:
        """All its tools, by fully qualified name."""
        ...

    def mended(self, name: str, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The arguments of a call as its tool mends them."""
        ...


class ToolHosts:
    """The port `ToolHost` over several sources.

    Args:
        own: the tools that every run of this worker may be offered.
        sources: those that depend on the run, in the order in which they are asked.
    """

    def __init__(self, own: CataloguedTools, sources: Sequence[ToolSource] = ()) -> None:
        self._own = own
        self._sources = tuple(sources)

    async def catalog(self) -> tuple[ToolDefinition, ...]:
        """The tools that do not depend on the run."""
        return await self._own.catalog()

    def mended(self, name: str, given: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The arguments of a call as its tool mends them; those of other sources stay as given."""
        return self._own.mended(name, given)

    async def call(self, envelope: ToolInvocation, grant: ToolGrant) -> ToolOutput:
        """Run one tool; a name that nobody serves gets our own host's answer to that."""
        return await self._source(envelope.name, grant).call(envelope, grant)

    async def rehearse(self, envelope: ToolInvocation, grant: ToolGrant) -> Rehearsal:
        """What a call would meet and do, as the source that would run it sees it."""
        return await self._source(envelope.name, grant).rehearse(envelope, grant)

    def _source(self, name: str, grant: ToolGrant) -> ToolSource:
        sources = (self._own, *self._sources)
        return next((source for source in sources if source.serves(name, grant)), self._own)
