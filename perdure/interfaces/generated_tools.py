"""What a person can do with tools that runs made: look, approve, reject; for all interfaces."""

from collections.abc import Sequence
from datetime import datetime

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.generated_tools.record import (
    GeneratedTool,
    MadeState,
    MadeToolStore,
    ToolAuthor,
    approved,
    rejected,
)
from perdure.domain.ports import BlobStore, RecordStore

MOST_LISTED = 500


class ShownTool(FrozenModel):
    """One tool in full: the record, its code, and who made it."""

    tool: GeneratedTool
    code: str
    makers: tuple[ToolAuthor, ...]


async def made_tools(
    store: MadeToolStore, *, state: MadeState | None = None, root: str | None = None
) -> Sequence[GeneratedTool]:
    """Tools in a state, made in the tree of a run; newest first."""
    return await store.list(state=state, root=root, limit=MOST_LISTED)


async def show(store: MadeToolStore, blobs: BlobStore, wanted: str) -> ShownTool:
    """One tool by its name, or by a unique beginning of its hash."""
    tool = await find(store, wanted)
    makers = tuple(await store.makers(tool.hash))
    return ShownTool(tool=tool, code=await blobs.get_text(tool.code), makers=makers)


async def approve(
    store: MadeToolStore, records: RecordStore, wanted: str, *, by: str, now: datetime
) -> GeneratedTool:
    """Let later runs use a tool.

    Raises:
        NotFound: there is no such tool.
        InvalidInput: several tools match.
        NotAllowed: no accepted run made it.
    """
    tool = await find(store, wanted)
    makers = await store.makers(tool.hash)
    ends: dict[str, str | None] = {}
    # By root: whether the whole tree was accepted counts, not how its worker ended.
    for root in {maker.root for maker in makers}:
        run = await records.run(root)
        ends[root] = run.outcome if run is not None else None
    opened = approved(tool, makers, ends, by=by, now=now)
    await store.decide(opened)
    return opened


async def reject(store: MadeToolStore, wanted: str, *, by: str, now: datetime) -> GeneratedTool:
    """Forbid a tool to every run, including open ones.

    Raises:
        NotFound: there is no such tool.
        InvalidInput: several tools match.
    """
    closed = rejected(await find(store, wanted), by=by, now=now)
    await store.decide(closed)
    return closed


async def find(store: MadeToolStore, wanted: str) -> GeneratedTool:
    """The only tool with this name or hash beginning."""
    name = wanted.strip()
    found = await store.find(name) if name else ()
    if not found:
        raise NotFound(
            f"There is no made tool {name[:80]!r}.", cure="`perdure tools list` lists all."
        )
    if len(found) > 1:
        listed = ", ".join(f"{tool.name} {tool.hash[:12]} ({tool.state})" for tool in found[:6])
        raise InvalidInput(
            f"{name[:80]!r} may mean {len(found)} tools: {listed}.", cure="Name one by its hash."
        )
    return found[0]
