"""Garbage collection: finds blobs that no retained run needs, by following addresses.

It is conservative on purpose. Every address in a row, or in the history of an execution that the
server still keeps, keeps its blob and all blobs that it leads to. A blob that was written or
renewed within the last hour stays. If steps are running, the hour counts back from the start of the
oldest one, since a step may be about to name what it has stored. A step whose execution closed more
than an hour ago does not run, although the server still has it.

A database on a full disk takes no write, not even one that deletes a run. So if one is refused,
files that nothing needs go first, which makes room, and then all else is tried once more.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from perdure.adapters.stores.maintenance import named_by_rows
from perdure.adapters.stores.open_stores import Stores
from perdure.adapters.workspaces.release import try_release
from perdure.domain.foundation.errors import NotFound, StoreAway
from perdure.domain.foundation.refs import addresses_in
from perdure.domain.ports import BlobStore
from perdure.domain.retention.rules import RetentionRule
from perdure.domain.tools.workspaces import Workspaces
from perdure.gateway.types import Retained
from perdure.interfaces.formatting import plural
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.services import Collected
from perdure.operations.erase_rows import complete_erasures
from perdure.operations.expiry import Expired, expire
from perdure.operations.following import reachable

YOUNG = timedelta(hours=1)
# Large payloads of histories are kept as blobs. A former server may still have such histories, and
# those cannot be read here, so payloads stay for this time anyway.
HISTORY_RETENTION = timedelta(days=30)
AUDIT_KEPT = timedelta(days=400)
NOTICES_KEPT = timedelta(days=90)
MONTHS_KEPT = timedelta(days=400)
PAYLOAD_MARK = b"json/plain"


@dataclass(slots=True)
class _Needs:
    """Needed addresses, open runs and steps of a collection, and when it began.

    Only blobs that are older than the cutoff may be deleted.
    """

    begun: datetime
    cutoff: datetime
    named: set[str] = field(default_factory=set)
    open: set[str] = field(default_factory=set)
    steps: set[str] = field(default_factory=set)

    def add(self, found: Retained, *, young: timedelta) -> None:
        for data in found.content:
            self.named |= addresses_in(data)
        if found.open:
            self.open.add(found.run)
        if found.may_work(since=self.begun - young):
            self.steps |= found.steps
            if found.busy_since is not None:
                self.cutoff = min(self.cutoff, found.busy_since - young)


@dataclass(frozen=True, slots=True)
class _Unneeded:
    """The sizes of unneeded blobs by address, and how many others stay.

    `erased` are the marks of erasures that are done with these: of unneeded blobs, and of some that
    are gone already. `shared` are marked blobs that something still names.
    """

    sizes: Mapping[str, int]
    kept: int
    erased: set[str]
    shared: set[str]


async def collect(
    stores: Stores,
    gateway: RunGateway,
    workspaces: Workspaces,
    *,
    now: datetime,
    dry_run: bool,
    young: timedelta = YOUNG,
    rules: Sequence[RetentionRule] = (),
    journal_days: int = 0,
) -> Collected:
    """Delete (or, with `dry_run`, count) the blobs that nothing retained leads to.

    First, expired runs are deleted; one that was reset stays and is named. Interrupted erasures are
    completed. Terminated runs are noted as ended. Working folders of ended runs go, their files are
    in the store; so do old audit lines and notices. Calls that no step waits for are lost.

    Args:
        stores: the stores of the installation.
        gateway: reads what the server keeps.
        workspaces: the working folders of this host.
        now: when this collection began.
        dry_run: only count.
        young: blobs that were written or renewed within this time stay.
        rules: how long ended runs are kept.
        journal_days: how many days calls of deleted runs keep their own rows; 0 means forever.

    Raises:
        ServiceUnavailable: the server does not answer; no blob was deleted.
        StoreAway: the store is away, or takes no write although what could go without one is gone.
        StoreError: retained content cannot be read; no blob was deleted.
    """
    expired = Expired()

    async def everything() -> Collected:
        await _expire(stores, gateway, rules, now=now, dry_run=dry_run, expired=expired)
        return await _collect(
            stores,
            gateway,
            workspaces,
            now=now,
            dry_run=dry_run,
            young=young,
            expired=expired,
            journal_days=journal_days,
        )

    try:
        return await everything()
    except StoreAway:
        if dry_run:
            raise
    freed = await _make_room(stores, gateway, workspaces, now=now, young=young)
    expired = Expired(dropped=expired.dropped)  # those that were left are asked again
    try:
        done = await everything()
    except StoreAway as away:
        raise _undone(freed, expired.dropped, away) from away
    more = {"blobs": done.blobs + len(freed), "bytes": done.bytes + sum(freed)}
    return done.model_copy(update=more)


async def _make_room(
    stores: Stores, gateway: RunGateway, workspaces: Workspaces, *, now: datetime, young: timedelta
) -> list[int]:
    """Delete unneeded blobs and folders without a write to the database; returns the sizes."""
    needs = _Needs(begun=now, cutoff=now - young)
    async for found in gateway.retained():
        needs.add(found, young=young)
    found = await _unneeded(
        stores, needs, now=now, erased=await stores.erasure().marked_addresses()
    )
    sizes = await stores.blobs.delete(list(found.sizes), written_before=needs.cutoff)
    await _release_ended(stores, workspaces, needs)
    return list(sizes)


def _undone(freed: Sequence[int], runs: int, away: StoreAway) -> StoreAway:
    """What a collection did and could not do, in words."""
    size = f"{sum(freed) / 1024 / 1024:.1f} MiB"
    gone = f"{plural(runs, 'run')} and " if runs else ""
    return StoreAway(
        f"Dropped {gone}{plural(len(freed), 'unneeded blob')} ({size}); then the database took no"
        " write. Runs that are due or to be erased stay, with what they alone need, and so do old"
        f" rows: {away.message}",
        cure="Free some MiB on its disk by other means, or mend what it names; then collect again.",
    )


async def _collect(
    stores: Stores,
    gateway: RunGateway,
    workspaces: Workspaces,
    *,
    now: datetime,
    dry_run: bool,
    young: timedelta,
    expired: Expired,
    journal_days: int,
) -> Collected:
    """Everything but runs, which are `expired` before."""
    needs = _Needs(begun=now, cutoff=now - young)
    # Read open calls before open steps: a call that begins in between is then not among them.
    begun = await stores.journal.unended(before=now - young)
    # Closed executions count too: a reset or a replay may need what they name.
    async for found in gateway.retained():
        needs.add(found, young=young)
    erased = await stores.erasure().marked_addresses()
    found = await _unneeded(stores, needs, now=now, erased=erased)
    orphaned = {row.key for row in begun} - needs.steps
    sizes, ended = list(found.sizes.values()), 0
    if not dry_run:
        for key in sorted(orphaned):
            await stores.journal.reconcile(key)
        sizes = await _drop(stores, found, cutoff=needs.cutoff, now=now)
        # Before folders: those of these runs may go too.
        ended = await gateway.close_rows(before=now - young)
        await _release_ended(stores, workspaces, needs)
        await _forget(stores, now, journal_days)
    return Collected(
        blobs=len(sizes),
        bytes=sum(sizes),
        # Fewer may have been deleted than were found: a step may have renewed some meanwhile.
        kept=found.kept + len(found.sizes) - len(sizes),
        dry_run=dry_run,
        calls=len(orphaned),
        ended=ended,
        runs=expired.dropped,
        left=expired.left,
        left_runs=tuple(expired.named),
    )


async def _drop(
    stores: Stores, unneeded: _Unneeded, *, cutoff: datetime, now: datetime
) -> list[int]:
    """Delete blobs that were last written before the cutoff; returns the deleted sizes."""
    # With the cutoff once more: some may have been renewed since they were listed.
    sizes = await stores.blobs.delete(list(unneeded.sizes), written_before=cutoff)
    # The marks of erasures that have not dropped their rows, which still name these blobs.
    erasure, going = stores.erasure(), set[str]()
    for root in (await erasure.pending()).roots:
        going |= await erasure.marked_addresses(root)
    await stores.erasure().unmark(sorted(unneeded.erased | unneeded.shared - going))
    if stores.objects is not None:
        await stores.objects.sweep(written_before=cutoff, now=now)
    return list(sizes)


async def _unneeded(stores: Stores, needs: _Needs, *, now: datetime, erased: set[str]) -> _Unneeded:
    """What may go; `erased` are the addresses that erasures marked."""
    needed = await reachable(stores.blobs, needs.named | await named_by_rows(stores.database))
    sizes: dict[str, int] = {}
    kept, absent = 0, set(erased)
    async for address, size in _candidates(stores.blobs, needs.cutoff, now=now, erased=erased):
        absent.discard(address)
        if size is None or address in needed:
            kept += 1
        else:
            sizes[address] = size
    return _Unneeded(
        sizes=sizes, kept=kept, erased=erased & sizes.keys() | absent, shared=erased & needed
    )


async def _expire(
    stores: Stores,
    gateway: RunGateway,
    rules: Sequence[RetentionRule],
    *,
    now: datetime,
    dry_run: bool,
    expired: Expired,
) -> None:
    """Delete expired runs, complete interrupted erasures, and count both."""
    if not dry_run:
        await stores.erasure().adopt()
    await expire(stores, gateway, rules, now=now, dry_run=dry_run, found=expired)
    if not dry_run:
        for run, why in await complete_erasures(stores, gateway, now=now):
            expired.leave(run, why)


async def _forget(stores: Stores, now: datetime, journal_days: int) -> None:
    """Delete what is kept only for a fixed time."""
    await stores.audit.forget(before=now - AUDIT_KEPT)
    await stores.notices().forget(before=now - NOTICES_KEPT)
    await stores.live().prune()
    await stores.schedules().bring_up(forget_before=now - MONTHS_KEPT)
    if journal_days:
        # Add up calls of deleted runs; first count all in the totals for monitoring.
        figures = stores.figures()
        while not await figures.count_calls(lost_before=now - YOUNG):
            pass
        await stores.ledger().roll_up(before=now - timedelta(days=journal_days))


async def _candidates(
    blobs: BlobStore, cutoff: datetime, *, now: datetime, erased: set[str]
) -> AsyncIterator[tuple[str, int | None]]:
    """All blobs; the size is None for those that must stay because of their age.

    Payloads of erased runs do not get the longer time for histories of a former server.
    """
    async for address, size, written in blobs.addresses():
        old = written < cutoff and (
            address in erased or not await _is_payload(blobs, address, now - written)
        )
        yield address, size if old else None


async def _release_ended(stores: Stores, workspaces: Workspaces, needs: _Needs) -> None:
    for run, made in (await workspaces.runs()).items():
        row = await stores.records.run(run)
        ended = None if row is None else row.ended_at
        # A run that was reset is open again, whatever its row says. A deleted run has no row.
        if run in needs.open or (row is not None and ended is None):
            continue
        # A run gets its folder before its row, and may have begun after open runs were listed.
        if made < needs.cutoff or (ended is not None and made <= ended):
            await try_release(workspaces, run)
    await workspaces.remove_unfinished()


async def _is_payload(blobs: BlobStore, address: str, age: timedelta) -> bool:
    if age >= HISTORY_RETENTION:
        return False
    try:
        # Where a payload has its encoding; a blob that only looks like one is just kept longer.
        return PAYLOAD_MARK in (await blobs.get(address))[:100]
    # Deleted by somebody else since it was listed.
    except NotFound:
        return False
