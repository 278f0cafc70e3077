"""What steps read and write of a run in the store: frames, iteration records, states, outputs."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from perdure.domain.foundation.tolerance import read
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.run.activity_messages import Frame
from perdure.domain.run.resume import StoredState
from perdure.domain.turns.records import IterationRecord

FRAMES_KEPT = 64


class Frames:
    """A cache of frames by address."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._kept: OrderedDict[str, Frame] = OrderedDict()

    async def load(self, address: str) -> Frame:
        """Return a frame, from memory if possible."""
        frame = self._kept.get(address)
        if frame is None:
            frame = read(Frame, await self._blobs.get(address))
            # Content-addressed, so an entry can be evicted but never be out of date.
            self._kept[address] = frame
            while len(self._kept) > FRAMES_KEPT:
                self._kept.popitem(last=False)
        return frame


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


async def records_of(records: RecordStore, run: str) -> list[IterationRecord]:
    """All iteration records of a run; a workflow and a result hold only the newest."""
    return [read(IterationRecord, text) for text in await records.records(run)]


async def inline_output(
    blobs: BlobStore, address: str | None, limit: int
) -> tuple[str | None, bool]:
    """The text of an output up to `limit` bytes, and whether it was cut."""
    if address is None or not limit:
        return None, False
    text = await blobs.get_text(address)
    whole = text.encode()
    if len(whole) <= limit:
        return text, False
    # The last character may be cut in two.
    return whole[:limit].decode(errors="ignore"), True
