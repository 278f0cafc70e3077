"""Garbage collection: which blobs no retained run needs, found by following addresses.

Conservative on purpose: every address that stands anywhere in what is kept keeps its blob, and
young blobs stay, because a step may be about to name them.
"""

import re
from datetime import datetime, timedelta

from perdure.adapters.stores import Stores
from perdure.domain.errors import PerdureError
from perdure.domain.ports import BlobStore, Workspaces
from perdure.interfaces.services import Collected, RunGateway

ADDRESS = re.compile(rb"(?:sha256|hmac):[0-9a-f]{64}")
YOUNG = timedelta(hours=1)
# Payloads that Temporal keeps through the store are named by its histories, which it retains.
HISTORY_RETENTION = timedelta(days=30)
PAYLOAD_MARK = b"json/plain"
ALL_RUNS = 1_000_000


async def collect(
    stores: Stores,
    gateway: RunGateway,
    workspaces: Workspaces,
    *,
    now: datetime,
    dry_run: bool,
) -> Collected:
    """Drop (or, with `dry_run`, count) the blobs that nothing retained leads to.

    Working folders of ended runs go as well: what they hold is in the store.
    """
    needed = await _reachable(stores.blobs, await _roots(stores, gateway))
    unneeded: list[str] = []
    size = kept = 0
    async for address, length, written in stores.blobs.addresses():
        age = now - written
        if address in needed or age < YOUNG or await _is_payload(stores.blobs, address, age):
            kept += 1
            continue
        unneeded.append(address)
        size += length
    if not dry_run:
        size = await stores.blobs.delete(unneeded)
        await _release_ended(stores, workspaces)
    return Collected(blobs=len(unneeded), bytes=size, kept=kept, dry_run=dry_run)


async def _release_ended(stores: Stores, workspaces: Workspaces) -> None:
    for run in await stores.records.find_runs(limit=ALL_RUNS):
        if run.ended_at is not None:
            await workspaces.release(run=run.id)


async def _roots(stores: Stores, gateway: RunGateway) -> set[str]:
    """Every address that rows, records and open histories name."""
    made = await stores.made_tools.list(limit=ALL_RUNS)
    found = {tool.code for tool in made}
    for run in await stores.records.find_runs(limit=ALL_RUNS):
        texts = [
            run.result or "",
            run.status or "",
            run.spec or "",
            run.state or "",
            *await stores.records.records(run.id),
        ]
        found |= _named("\n".join(texts).encode())
        found |= {made.ref for made in await stores.artifacts.artifacts_of_run(run.id)}
        if run.ended_at is None:
            found |= _named(await gateway.history_export(run.id))
            found |= set(await stores.journal.replies(run.id))
    return found


async def _reachable(blobs: BlobStore, roots: set[str]) -> set[str]:
    needed: set[str] = set()
    waiting = list(roots)
    while waiting:
        address = waiting.pop()
        if address in needed:
            continue
        needed.add(address)
        try:
            waiting += _named(await blobs.get(address)) - needed
        except PerdureError:
            continue  # named, but not here: nothing to follow and nothing to drop
    return needed


async def _is_payload(blobs: BlobStore, address: str, age: timedelta) -> bool:
    if age >= HISTORY_RETENTION:
        return False
    return PAYLOAD_MARK in (await blobs.get(address))[:100]


def _named(data: bytes) -> set[str]:
    return {match.decode() for match in ADDRESS.findall(data)}
