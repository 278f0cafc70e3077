"""What a garbage collection came to."""

from perdure.domain.foundation.base import FrozenModel


class Collected(FrozenModel):
    """What a garbage collection dropped, or would drop.

    `calls` are those that the journal knows as begun and no step is waiting for, as in a store that
    was restored: they are booked as lost, at what they were expected to use.
    """

    blobs: int
    bytes: int
    kept: int
    dry_run: bool
    calls: int = 0
