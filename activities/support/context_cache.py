"""Loads frames; workers cache the newest, since a frame never changes."""

from collections import OrderedDict

from perdure.domain.foundation.tolerance import read
from perdure.domain.ports import BlobStore
from perdure.domain.run.activity_messages import Frame

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
