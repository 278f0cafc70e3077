"""A run as the record store keeps it."""

from datetime import datetime

from perdure.domain.foundation.base import FrozenModel


class StoredRun(FrozenModel):
    """What the store knows of a run; `spec` and `state`, in which it ended, are addresses.

    `parent` is the run that it works for. `digest` is of what it was started with, `start_key` of
    the idempotency key: they say what the id and the key stand for, also when the server no longer
    knows the run. `workspace` is the id of its folder, empty without one or below another run, and
    None in rows of before that was kept.
    """

    id: str
    kind: str
    goal: str
    label: str | None
    lifecycle: str
    outcome: str | None
    started_at: datetime
    ended_at: datetime | None = None
    result: str | None = None
    status: str | None = None
    spec: str | None = None
    state: str | None = None
    parent: str | None = None
    digest: str | None = None
    start_key: str | None = None
    workspace: str | None = ""
