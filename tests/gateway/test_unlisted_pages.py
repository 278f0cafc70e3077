"""Pages of many runs that the server's index does not have yet."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from perdure.domain.foundation.names import WORKFLOW_TYPES
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.run_list import Listing
from perdure.gateway.types import InstallationInfo, RunFilter
from perdure.interfaces.rest.paging import Cursors
from tests.gateway.memory_stores import MemoryJournal, MemoryRecords
from tests.gateway.tiny import ADDRESS, row

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TOP = "delegation-write-a-secret-report-1a2b3c"
RUNS = [TOP, *(f"{TOP}.writes-its-chapter-{number:03d}" for number in range(150))]
LONGEST_CURSOR = 4_000  # see `CursorText`


class Server:
    """Knows each run by its id, and lists none yet."""

    async def page(
        self, query: str, *, limit: int, cursor: bytes | None = None
    ) -> tuple[list[ExecutionInfo], bytes | None]:
        return [], None

    async def looks(self, runs: Sequence[str]) -> list[ExecutionInfo]:
        return [
            ExecutionInfo(
                id=run,
                execution=run,
                kind=next(iter(WORKFLOW_TYPES)),
                ending=None,
                history_length=3,
                started_at=NOW,
                closed_at=None,
                facts={},
                memo={},
            )
            for run in runs
        ]


async def test_a_cursor_has_no_ids_and_fits_into_a_request() -> None:
    records, server = MemoryRecords(), Server()
    for run in RUNS:
        await records.put_run(row(run, started_at=NOW))
    kept: dict[str, Any] = {"records": records, "journal": MemoryJournal(), "server": server}
    listing = Listing(**kept, facts=InstallationInfo(address=ADDRESS), now=lambda: NOW)
    cursors, seen = Cursors(b"key", "loops"), list[str]()
    wanted = RunFilter(root=TOP, limit=140)
    while True:
        page = await listing.page(wanted)
        seen += [one.id for one in page.runs]
        if (cursor := cursors.made(page.cursor)) is None:
            break
        assert len(cursor) <= LONGEST_CURSOR
        assert b"secret" not in base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        wanted = wanted.model_copy(update={"cursor": cursors.read(cursor)})
    assert sorted(seen) == sorted(RUNS)
