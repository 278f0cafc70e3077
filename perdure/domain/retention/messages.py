"""What the scheduled workflow `Collection` and its step say to each other."""

from perdure.domain.foundation.base import ActivityMessage, FrozenModel, WorkflowInput


class CollectionInput(FrozenModel, WorkflowInput):
    """Input of `Collection`: where its step runs, and how long it may take."""

    queue: str
    timeout_s: float = 3_600.0


class CollectRequest(ActivityMessage):
    """Apply the rules of retention, and drop what nothing needs."""


class CollectReport(ActivityMessage):
    """What was dropped."""

    runs: int = 0
    blobs: int = 0
    bytes: int = 0
    kept: int = 0
    calls: int = 0
