"""A check of `doctor`: which encryption keys there are, and what still needs the old ones."""

from datetime import timedelta

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.key_use import KeyRegistry
from perdure.adapters.stores.open_stores import stores_of
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.installation.encryption_keys import KeyUse
from perdure.interfaces.app_context import Connect
from perdure.interfaces.services import Check
from perdure.operations.doctor_checks import is_new
from perdure.operations.keys import key_uses

NAME = "encryption"
LOOKS_FOR = timedelta(seconds=10)


async def encryption(settings: Settings, connect: Connect) -> Check:
    """Search rows, blobs and histories for uses of the keys, with a time limit."""
    if is_new(settings):
        return Check(name=NAME, state="ok", found="nothing is kept yet")
    late = utc_now() + LOOKS_FOR
    async with stores_of(settings) as stores:
        ids = stores.database.cells.ids
        known = {key.id for key in await KeyRegistry(stores.database).known() if not key.retired_at}
        # Before anything is searched: what such a key has sealed cannot be read.
        if lacking := sorted(known - {*ids}):
            return _lacking(lacking)
        if not ids:
            return Check(name=NAME, state="ok", found="no key is set; contents are kept plain")
        if len(ids) == 1:
            return Check(name=NAME, state="ok", found=f"key {ids[0]}, no old keys")
        try:
            async with connect(start=False, on_progress=lambda _: None) as services:
                uses = await key_uses(stores, services.gateway, stop=lambda: utc_now() > late)
        except ServiceUnavailable:  # another check reports it; do without histories
            uses = await key_uses(stores, None, stop=lambda: utc_now() > late)
            uses = [use.model_copy(update={"whole": False}) for use in uses]
    return _rotating(uses)


def _lacking(lacking: list[str]) -> Check:
    return Check(
        name=NAME,
        state="failed",
        found="no worker starts: content needs a key that no setting names: " + ", ".join(lacking),
        cure="Name it in PERDURE_ENCRYPTION_KEY or PERDURE_ENCRYPTION_OLD_KEYS.",
    )


def _rotating(uses: list[KeyUse]) -> Check:
    current, *others = uses
    old = [use for use in others if use.configured]
    told = "; ".join(f"old key {use.id}: {use.needs}" for use in old)
    free = [use.id for use in old if not use.needed and use.whole and use.retired_at is None]
    stored = any(use.rows or use.blobs for use in old)
    cure = "`perdure keys rewrap` encrypts rows and blobs again." if stored else ""
    if free:
        cure = f"Let it go: perdure keys retire {free[0]}"
    return Check(name=NAME, state="ok", found=f"key {current.id}; {told}", cure=cure)
