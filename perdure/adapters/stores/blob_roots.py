"""Which blobs the rows of a store name: where garbage collection begins."""

from collections.abc import AsyncIterator

from sqlalchemy import Select, Text, select

from perdure.adapters.stores.cells import Content
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.tables import (
    api_starts,
    api_tokens,
    attempts,
    blobs,
    metadata,
    replies,
    runs,
    seals,
    tree_seals,
)
from perdure.domain.foundation.refs import addresses_in

PAGE = 500
# What is left out grows with the books and names no content. A table that is added later is read.
_NAMELESS = frozenset({api_starts, api_tokens, attempts, blobs, replies, seals, tree_seals})


async def named_by_rows(database: Database) -> set[str]:
    """Every address in any row: runs, records, memory, made tools, artifacts, and all others.

    Of the journal, which outlives its runs, the replies of runs that there are.
    """
    named: set[str] = set()
    for table in metadata.sorted_tables:
        texts = [column for column in table.columns if isinstance(column.type, Text | Content)]
        if texts and table not in _NAMELESS:
            named |= await _named(database, select(*texts))
    return named | await _named(database, _replies())


async def _named(database: Database, query: Select[tuple[str | None, ...]]) -> set[str]:
    named: set[str] = set()
    async for text in _values(database, query):
        named |= addresses_in(text.encode(errors="replace"))
    return named


async def _values(database: Database, query: Select[tuple[str | None, ...]]) -> AsyncIterator[str]:
    paged = query.execution_options(yield_per=PAGE)
    async with database.read() as connection, connection.stream(paged) as rows:
        async for row in rows:
            for value in row:
                if value is not None:
                    yield value


def _replies() -> Select[tuple[str | None, ...]]:
    of_a_run = select(attempts.c.key).join(runs, runs.c.id == attempts.c.run)
    return select(replies.c.reply).where(replies.c.key.in_(of_a_run))
