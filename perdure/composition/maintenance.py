"""Rare services that load much: erasing runs, and replaying them."""

from typing import TYPE_CHECKING

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.open_stores import Stores
from perdure.adapters.temporal.encryption_keys import encryption_keys
from perdure.domain.ports import BlobStore
from perdure.gateway.gateway import Gateway

if TYPE_CHECKING:
    from perdure.interfaces.services import ErasureService


def erasing(stores: Stores, gateway: Gateway) -> "ErasureService":
    from perdure.operations.erase import Eraser

    return Eraser(stores, gateway)


async def replayed_by(settings: Settings, blobs: BlobStore, run: str, history: bytes) -> str | None:
    """Why this code, with these stores, does not replay a history; None if it does."""
    # Imported here: a replay loads the workflows.
    from perdure.adapters.temporal.payload_codec import payload_codec
    from perdure.operations import replay

    return await replay.why_not(
        run,
        history,
        blobs=blobs,
        keys=encryption_keys(settings),
        plain=settings.encryption_plain == "read",
        codec=payload_codec(settings),
    )
