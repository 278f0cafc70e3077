"""Requests and reports of the steps that keep what a run made: snapshots, accounts, its end."""

from pydantic import JsonValue

from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.turns.records import IterationRecord


class SnapshotRequest(ActivityMessage):
    """Store the working folder's tree; at the end, also the patch from the base to the best."""

    run: str
    root: str
    patch_from: str | None = None
    patch_to: str | None = None


class SnapshotReport(ActivityMessage):
    """The tree's manifest, and the deliverable where one was asked for."""

    tree: BlobRef
    patch: BlobRef | None = None
    seconds: float = 0.0


class ReconcileRequest(ActivityMessage):
    """Sum the attempts of an activity that ended without a report."""

    activity_id: str


class FinishRequest(ActivityMessage):
    """Write the last records, the result and the last state of a run; repeats replace.

    `remembered`: memory keeps an event of it, under its `category`, for pattern mining. `output` is
    the address of the text that is wanted back, up to so many bytes of it as `inline` says.
    """

    run: str
    records: tuple[IterationRecord, ...] = ()
    result: str
    status: str | None = None
    outcome: str
    lifecycle: str
    ended_at: str
    category: str | None = None
    remembered: bool = False
    state: dict[str, JsonValue] | None = None
    output: str | None = None
    inline: int = 0


class FinishReport(ActivityMessage):
    """Whether the run's row was there to be closed, and the output; `excerpt`: its beginning."""

    stored: bool = True
    output: str | None = None
    excerpt: bool = False
