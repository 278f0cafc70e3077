"""Stores of the gateway's tests, in memory."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

from perdure.domain.budget.journal import AttemptRow, CallProgress
from perdure.domain.foundation.errors import NotFound
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.installation.workspace_use import WorkspaceUse
from perdure.domain.llm.usage import AttemptTotals
from perdure.domain.retention.erasure import Tombstone
from perdure.domain.run.child_runs import is_below
from perdure.domain.run.status import RunWords, StoredRun


@dataclass
class MemoryBlobs:
    """Blobs by a made-up address."""

    kept: dict[str, bytes] = field(default_factory=dict)

    async def put(self, data: bytes) -> str:
        address = f"sha256:{len(self.kept)}"
        self.kept[address] = data
        return address

    async def put_text(self, text: str) -> BlobRef:
        return BlobRef(hash=await self.put(text.encode()), bytes=len(text.encode()))

    async def get(self, address: str) -> bytes:
        if address not in self.kept:
            raise NotFound(f"no blob {address}")
        return self.kept[address]

    async def get_text(self, address: str) -> str:
        return (await self.get(address)).decode()

    async def exists(self, address: str) -> bool:
        return address in self.kept

    async def delete(self, addresses: Sequence[str], *, written_before: datetime) -> list[int]:
        return [len(self.kept.pop(address)) for address in addresses]

    async def addresses(self) -> AsyncIterator[tuple[str, int, datetime]]:
        for address, data in self.kept.items():
            yield address, len(data), datetime.now(UTC)


@dataclass
class MemoryRecords:
    """Run rows, records and registries; what the gateway does not use is not there."""

    name: str = field(default_factory=lambda: uuid4().hex[:8])
    rows: dict[str, StoredRun] = field(default_factory=dict)
    texts: dict[str, dict[int, str]] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)

    async def installation(self) -> str:
        return self.name

    async def workspace(self, path: str) -> str:
        return self.folders.setdefault(path, f"w{len(self.folders)}")

    async def workspaces(self) -> dict[str, str]:
        return {name: path for path, name in self.folders.items()}

    async def workspace_uses(self) -> list[WorkspaceUse]:
        return [WorkspaceUse(id=name, path=path) for path, name in self.folders.items()]

    async def put_run(self, run: StoredRun) -> None:
        self.rows[run.id] = run

    async def claim_run(self, run: StoredRun, *, seen: StoredRun | None) -> bool:
        known = self.rows.get(run.id)
        if seen is None:
            taken = known is not None or await self.run_of_key(run.start_key or "") is not None
        else:
            taken = known is None or (
                (known.started_at, known.ended_at) != (seen.started_at, seen.ended_at)
            )
        if taken:
            return False
        self.rows[run.id] = run
        return True

    async def run_of_key(self, start_key: str) -> StoredRun | None:
        found = (row for row in self.rows.values() if row.start_key == start_key)
        return next(found, None)

    async def reopen_run(self, run: StoredRun, *, ended_at: datetime) -> bool:
        if self.rows[run.id].ended_at != ended_at:
            return False
        self.rows[run.id] = run
        return True

    async def run(self, run: str) -> StoredRun | None:
        return self.rows.get(run)

    async def find_runs(
        self,
        *,
        prefix: str = "",
        limit: int = 100,
        offset: int = 0,
        roots: bool = False,
        until: datetime | None = None,
    ) -> list[StoredRun]:
        found = [row for row in self.rows.values() if row.id.startswith(prefix)]
        found = [row for row in found if row.parent is None or not roots]
        found = [row for row in found if until is None or row.started_at <= until]
        return sorted(found, key=lambda row: row.started_at, reverse=True)[offset:][:limit]

    async def words(self, ids: Sequence[str]) -> dict[str, RunWords]:
        known = [self.rows[run] for run in ids if run in self.rows]
        return {row.id: RunWords(goal=row.goal, label=row.label) for row in known}

    async def start_times(self, ids: Sequence[str]) -> dict[str, datetime]:
        return {run: self.rows[run].started_at for run in ids if run in self.rows}

    async def runs(self, ids: Sequence[str]) -> list[StoredRun]:
        return [self.rows[run] for run in ids if run in self.rows]

    async def open_runs(self) -> list[str]:
        return [row.id for row in self.rows.values() if row.ended_at is None]

    async def edit_run(self, run: str, *, goal: str, label: str | None, spec: str) -> None:
        changed = {"goal": goal, "label": label, "spec": spec}
        self.rows[run] = self.rows[run].model_copy(update=changed)

    async def edit_status(self, run: str, status: str) -> None:
        if self.rows[run].ended_at is None:
            self.rows[run] = self.rows[run].model_copy(update={"status": status})

    async def delete_run(self, run: str, *, stone: Tombstone | None = None) -> None:
        del stone
        self.rows.pop(run, None)
        self.texts.pop(run, None)

    async def put_record(self, run: str, index: int, record: str) -> None:
        self.texts.setdefault(run, {})[index] = record

    async def records(self, run: str) -> list[str]:
        kept = self.texts.get(run, {})
        return [kept[index] for index in sorted(kept)]


@dataclass
class MemoryJournal:
    """Rows as they were put in."""

    kept: list[AttemptRow] = field(default_factory=list)

    async def rows(self, run: str) -> list[AttemptRow]:
        return [row for row in self.kept if row.run == run]

    async def tree(self, *, root: str, run: str) -> list[AttemptRow]:
        return [row for row in self.kept if row.run == run or is_below(row.run, run)]

    async def has_spent(self, run: str) -> bool:
        return bool(await self.rows(run))

    async def is_used(self, run: str) -> bool:
        return any(run in (row.run, row.root) for row in self.kept)

    async def progress(self, runs: Collection[str]) -> list[CallProgress]:
        return []

    async def spent(self, roots: Collection[str]) -> dict[str, float | None]:
        return {}

    async def seal_and_sum(self, execution: str) -> AttemptTotals:
        return AttemptTotals()
