"""What the scheduled workflow `Collection` and its step say to each other."""

from perdure.domain.foundation.base import ActivityMessage, FrozenModel, WorkflowInput


class CollectionInput(FrozenModel, WorkflowInput):
    """Input of `Collection`: where its step runs, and how long it may take.

    A large store takes hours, and an attempt that is cut short reads everything again: `longest_s`
    only ends one that hangs. After `heartbeat_s` without a sign of life another worker begins.
    """

    queue: str
    longest_s: float = 7 * 86_400.0
    heartbeat_s: float = 120.0


class CollectRequest(ActivityMessage):
    """Apply the rules of retention, and drop what nothing needs."""


class LeftRun(FrozenModel):
    """A run that its rule keeps no longer, and why it could not be dropped."""

    run: str
    why: str


class CollectReport(ActivityMessage):
    """What was dropped; `left` says how many runs could not be, `left_runs` names the first.

    `ended` are runs that were noted as ended.
    """

    runs: int = 0
    blobs: int = 0
    bytes: int = 0
    kept: int = 0
    calls: int = 0
    ended: int = 0
    left: int = 0
    left_runs: tuple[LeftRun, ...] = ()
