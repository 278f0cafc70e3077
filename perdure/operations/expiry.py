"""Dropping runs that the rules of retention keep no longer, one tree after the other.

Each tree is dropped for itself: a kill loses nothing, and the next attempt finds those that are
left. Whatever keeps one of them from being dropped concerns that one alone.
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
    """How many root runs were dropped, how many could not be, and the first of these by name."""

    dropped: int = 0
    left: int = 0
    named: list[LeftRun] = field(default_factory=list)

    def leave(self, run: str, why: str) -> None:
        """Count a run that could not be dropped."""
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
) -> Expired:
    """Drop runs that are kept no longer, with those below them; what memory learned stays.

    Raises:
        ServiceUnavailable: the server does not answer.
        StoreAway: the store does not.
    """
    found, rows = Expired(), stores.erasure()
    async for root in _ended(rows, due_by(rules, now)):
        if not is_expired(root, rules, now):
            continue
        try:
            found.dropped += await _drop(rows, gateway, root.id, now=now, dry_run=dry_run)
        except (ServiceUnavailable, StoreAway):
            raise  # so it would be with all others
        except PerdureError as error:
            found.leave(root.id, error.message)
    return found


async def _ended(rows: ErasureStore, by: datetime | None) -> AsyncIterator[RootRun]:
    """Root runs that ended by then, oldest first, some at a time however many there are."""
    page = [] if by is None else await rows.ended(by=by)
    while by is not None and page:
        for root in page:
            yield root
        page = await rows.ended(by=by, after=page[-1])


async def _drop(
    rows: ErasureStore, gateway: RunGateway, root: str, *, now: datetime, dry_run: bool
) -> bool:
    """Drop a tree; False where it went with another one, such as a run with what it learned."""
    tree = await rows.tree(root)
    if not tree:
        return False
    if still := next((row.id for row in tree if row.ended_at is None), None):
        raise NotAllowed(f"The run {still} has not ended; only ended runs can be deleted.")
    # The server's word counts: the row of a run that was reset says ended until it ends again.
    stones = [stone_of(row, root, now, "expired") for row in tree]
    await gateway.expire(stones, dry_run=dry_run)
    return True


def stone_of(row: StoredRun, root: str, now: datetime, why: TombstoneReason) -> Tombstone:
    """What stays of a run; after an erasure without its label, which may name somebody."""
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
