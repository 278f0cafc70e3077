"""Rare services that load much: collecting garbage, erasing runs, and replaying them."""

from typing import TYPE_CHECKING

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.open_stores import Stores
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.domain.ports import BlobStore
from perdure.gateway.gateway import Gateway

if TYPE_CHECKING:
    from perdure.composition.parts import Parts
    from perdure.interfaces.gateways import RunGateway
    from perdure.interfaces.services import Collected, ErasureService


async def collect_garbage(parts: "Parts", gateway: "RunGateway", *, dry_run: bool) -> "Collected":
    """Collect garbage, with the rules of retention in the settings."""
    from perdure.domain.retention.rules import read_rules
    from perdure.operations import gc
    from perdure.operations.clocks import refuse_a_wrong_clock

    # Before anything is deleted: by a clock that is ahead, everything looks old enough.
    await refuse_a_wrong_clock(parts.stores.database, gateway)
    return await gc.collect(
        parts.stores,
        gateway,
        parts.workspaces,
        now=utc_now(),
        dry_run=dry_run,
        rules=read_rules(parts.settings.retention),
        journal_days=parts.settings.journal_days,
    )


def erasing(stores: Stores, gateway: Gateway) -> "ErasureService":
    from perdure.operations.erase import Eraser

    return Eraser(stores, gateway)


async def why_not_replayed(
    settings: Settings, blobs: BlobStore, run: str, history: bytes
) -> str | None:
    """Why this code, with these stores, does not replay a history; None if it does."""
    # Imported here: a replay loads the workflows.
    from perdure.adapters.temporal.custom_codec import payload_codec
    from perdure.operations import replay

    return await replay.why_not_replayed(
        run,
        history,
        blobs=blobs,
        keys=encryption_keys(settings),
        plain=settings.encryption_plain == "read",
        codec=payload_codec(settings),
    )
