"""Deletes runs that the retention rules no longer keep, one tree after the other.

Each tree is deleted on its own: after an interruption, the next attempt finds the rest. A tree that
cannot be deleted does not stop the others.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from perdure.adapters.stores.open_stores import Stores
from perdure.domain.foundation.errors import NotAllowed, PerdureError, ServiceUnavailable, StoreAway
from perdure.domain.retention.erasure import ErasureStore, RootRun, Tombstone, TombstoneReason
from perdure.domain.retention.messages import LeftRun
from perdure.domain.retention.rules import RetentionRule, due_by, is_expired
from perdure.domain.run.status import StoredRun
from perdure.interfaces.gateways import RunGateway

MOST_NAMED = 20


@dataclass(slots=True)
class Expired:
    """How many root runs were deleted, how many could not be, and the first of those."""

    dropped: int = 0
    left: int = 0
    named: list[LeftRun] = field(default_factory=list)

    def leave(self, run: str, why: str) -> None:
        """Count a run that could not be deleted."""
        self.left += 1
        if len(self.named) < MOST_NAMED:
            self.named.append(LeftRun(run=run, why=why))


async def expire(
    stores: Stores,
    gateway: RunGateway,
    rules: Sequence[RetentionRule],
    *,
    now: datetime,
    dry_run: bool,
    found: Expired,
) -> None:
    """Delete expired runs with the runs below them, and count them; what memory learned stays.

    Raises:
        ServiceUnavailable: the server does not answer.
        StoreAway: the store does not answer.
    """
    rows = stores.erasure()
    async for root in _ended(rows, due_by(rules, now)):
        if not is_expired(root, rules, now):
            continue
        try:
            found.dropped += await _drop(rows, gateway, root.id, now=now, dry_run=dry_run)
        except (ServiceUnavailable, StoreAway):
            raise  # all other runs would fail too
        except PerdureError as error:
            found.leave(root.id, error.message)


async def _ended(rows: ErasureStore, by: datetime | None) -> AsyncIterator[RootRun]:
    """Root runs that ended by a time, oldest first, read page by page."""
    page = [] if by is None else await rows.ended(by=by)
    while by is not None and page:
        for root in page:
            yield root
        # After the last one, and not by a number: rows vanish meanwhile.
        page = await rows.ended(by=by, after=page[-1])


async def _drop(
    rows: ErasureStore, gateway: RunGateway, root: str, *, now: datetime, dry_run: bool
) -> bool:
    """Delete a tree; False if it is gone already."""
    tree = await rows.tree(root)
    if not tree:
        return False
    if still := next((row.id for row in tree if row.ended_at is None), None):
        raise NotAllowed(f"The run {still} has not ended; only ended runs can be deleted.")
    # The gateway asks the server too: after a reset, a row says ended although the run is open.
    stones = [stone_of(row, root, now, "expired") for row in tree]
    await gateway.expire(stones, dry_run=dry_run)
    return True


def stone_of(row: StoredRun, root: str, now: datetime, why: TombstoneReason) -> Tombstone:
    """The tombstone of a run; after an erasure, without the label, which may name somebody."""
    return Tombstone(
        run=row.id,
        root=root,
        kind=row.kind,
        label=row.label if why == "expired" else None,
        outcome=row.outcome,
        started_at=row.started_at,
        ended_at=row.ended_at,
        at=now,
        why=why,
    )
