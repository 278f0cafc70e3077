"""All runs that a gateway lists, page after page: neighbours on the shared server have many."""

from typing import Protocol

from perdure.gateway.types import RunFilter, RunPage, RunRow


class Lists(Protocol):
    async def list(self, wanted: RunFilter | None = None) -> RunPage: ...


async def listed(gateway: Lists) -> dict[str, RunRow]:
    """Rows by id."""
    page = await gateway.list(RunFilter(limit=200))
    found = {row.id: row for row in page.runs}
    while page.cursor is not None:
        page = await gateway.list(RunFilter(limit=200, cursor=page.cursor))
        found |= {row.id: row for row in page.runs}
    return found
