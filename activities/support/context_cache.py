"""Loading a run's frame; workers keep the newest few, since a frame never changes."""

from collections import OrderedDict

from perdure.domain.foundation.tolerance import read
from perdure.domain.ports import BlobStore
from perdure.domain.run.activity_messages import Frame

FRAMES_KEPT = 64


class Frames:
    """Frames by their address."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._kept: OrderedDict[str, Frame] = OrderedDict()

    async def load(self, address: str) -> Frame:
        """Return the frame, from memory where it is known."""
        frame = self._kept.get(address)
        if frame is None:
            frame = read(Frame, await self._blobs.get(address))
            self._kept[address] = frame
            while len(self._kept) > FRAMES_KEPT:
                self._kept.popitem(last=False)
        return frame
