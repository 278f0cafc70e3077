"""Generated tools as rows: one row for each hash, and one for each run that made the tool."""

from collections.abc import Sequence

from pydantic import ValidationError
from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.encryption import Cells
from perdure.adapters.stores.tables import made_tool_makers, made_tools
from perdure.domain.foundation.errors import NotFound, StoreError
from perdure.domain.foundation.tolerance import read
from perdure.domain.generated_tools.record import GeneratedTool, MadeState, ToolAuthor
from perdure.event_log import get_logger

LOCK = "made tools"
FOUND_AT_ONCE = 100
_log = get_logger(__name__)


class SqlMadeTools:
    """The port `MadeToolStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def keep(self, tool: GeneratedTool, maker: ToolAuthor) -> GeneratedTool:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await _row(connection, tool.hash)
            stands = tool if known is None else _newer(known, tool)
            if known is None:
                insert = self._database.insert(made_tools)
                await connection.execute(insert.values(**columns_of(tool, self._database.cells)))
            elif stands != known:
                await self._write(connection, stands)
            makers = self._database.insert(made_tool_makers).values(
                hash=tool.hash,
                run=maker.run,
                root=maker.root,
                worker=maker.worker,
                made_at=maker.at,
            )
            await connection.execute(makers.on_conflict_do_nothing())
            return stands

    async def get(self, hash: str) -> GeneratedTool | None:
        async with self._database.read() as connection:
            return await _row(connection, hash)

    async def find(self, name_or_hash: str) -> Sequence[GeneratedTool]:
        # Not LIKE: names of tools hold `_`, one of its wildcards.
        beginning = func.substr(made_tools.c.hash, 1, len(name_or_hash)) == name_or_hash
        forms = self._database.cells.digests(name_or_hash)
        wanted = or_(made_tools.c.name.in_(forms), beginning)
        return await self._tools(select(made_tools.c.tool).where(wanted).limit(FOUND_AT_ONCE))

    async def list(
        self, *, state: MadeState | None = None, root: str | None = None, limit: int = 100
    ) -> Sequence[GeneratedTool]:
        query = select(made_tools.c.tool).limit(limit)
        if state is not None:
            query = query.where(made_tools.c.state == state)
        if root is not None:
            made = select(made_tool_makers.c.hash).where(made_tool_makers.c.root == root)
            query = query.where(made_tools.c.hash.in_(made))
        return await self._tools(query)

    async def makers(self, hash: str) -> Sequence[ToolAuthor]:
        query = (
            select(made_tool_makers)
            .where(made_tool_makers.c.hash == hash)
            .order_by(made_tool_makers.c.made_at, made_tool_makers.c.run)
        )
        async with self._database.read() as connection:
            found = await connection.execute(query)
            return [
                ToolAuthor(run=row.run, root=row.root, worker=row.worker, at=row.made_at)
                for row in found
            ]

    async def decide(self, tool: GeneratedTool) -> None:
        async with self._database.write() as connection:
            await self._database.lock(connection, LOCK)
            known = await _row(connection, tool.hash)
            if known is None:
                raise NotFound(f"There is no made tool {tool.hash}.", cure="perdure tools list")
            # Only the decision: the row may have a newer validation than what was shown.
            decided = {
                "state": tool.state,
                "decided_by": tool.decided_by,
                "decided_at": tool.decided_at,
            }
            await self._write(connection, known.model_copy(update=decided))

    async def _write(self, connection: AsyncConnection, tool: GeneratedTool) -> None:
        changed = columns_of(tool, self._database.cells)
        await connection.execute(
            update(made_tools).where(made_tools.c.hash == tool.hash).values(**changed)
        )

    async def _tools(self, query: Select[str]) -> Sequence[GeneratedTool]:
        ordered = query.order_by(made_tools.c.made_at.desc(), made_tools.c.hash)
        rows = await self._database.values(ordered)
        return tuple(tool for row in rows if (tool := _readable(row)) is not None)


def _readable(row: str) -> GeneratedTool | None:
    try:
        return read(GeneratedTool, row)
    except ValidationError as error:
        _log.warning("made_tool_unreadable", fault=without_secrets(error)[:200])
        return None


async def _row(connection: AsyncConnection, hash: str) -> GeneratedTool | None:
    row = await connection.scalar(select(made_tools.c.tool).where(made_tools.c.hash == hash))
    if row is None:
        return None
    try:
        return read(GeneratedTool, row)
    except ValidationError as error:
        raise StoreError(
            f"The made tool {hash} cannot be read by this version.",
            cure="Run the version of Perdure that wrote it.",
        ) from error


def _newer(known: GeneratedTool, tool: GeneratedTool) -> GeneratedTool:
    """The tool with the newer validation and the earlier decision of a person."""
    if tool.pipeline <= known.pipeline:
        return known
    decided = known.model_dump(include={"state", "decided_by", "decided_at", "made_at"})
    return tool.model_copy(update=decided)


def columns_of(tool: GeneratedTool, cells: Cells) -> dict[str, object]:
    """The columns of a tool; with a key, queries find it by a digest of its name."""
    return {
        "hash": tool.hash,
        "name": cells.digest(tool.name),
        "state": tool.state,
        "made_at": tool.made_at,
        "tool": tool.model_dump_json(),
    }
