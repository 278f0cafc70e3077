"""Writes iteration records; the newest names the state that the run can continue from."""

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.run.resume import StoredState
from perdure.domain.turns.records import IterationRecord


class RecordKeeper:
    """Writes records and states; every write may be repeated."""

    def __init__(self, *, blobs: BlobStore, records: RecordStore) -> None:
        self._blobs = blobs
        self._records = records

    async def state(self, kind: str, state: Mapping[str, JsonValue]) -> str:
        """Store a slim state and return its address."""
        stored = StoredState(kind=kind, state=dict(state))
        return await self._blobs.put(stored.model_dump_json().encode())

    async def write(
        self, run: str, records: Sequence[IterationRecord], *, state_ref: str | None
    ) -> None:
        """Write records in order; `state_ref` is the state after the newest."""
        for record in records:
            # Only the newest: the state is that of now, and older records have theirs already.
            if record is records[-1]:
                record = record.model_copy(update={"state_ref": state_ref})
            await self._records.put_record(run, record.index, record.model_dump_json())
