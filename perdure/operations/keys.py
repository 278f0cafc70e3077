"""Rotates encryption keys: finds what needs which key, encrypts again, and retires keys."""

from collections import defaultdict
from datetime import datetime

from perdure.adapters.stores.key_use import (
    KeyRegistry,
    Stop,
    blobs_by_key,
    never,
    rewrap,
    rows_by_key,
)
from perdure.adapters.stores.open_stores import Stores
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.installation.encryption_keys import KeyUse, require_retirable
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.services import Rewrapped

NO_ENCRYPTION = "No encryption key is set."


async def key_uses(
    stores: Stores, gateway: RunGateway | None, *, stop: Stop = never
) -> list[KeyUse]:
    """What needs each key, the current one first.

    Args:
        stores: the stores of the installation.
        gateway: reads what the server keeps; without it, histories are not searched.
        stop: ends the search early when it returns True; the numbers are then lower bounds.

    Raises:
        InvalidInput: there is no key.
        ServiceUnavailable: the server does not answer.
    """
    ids = stores.database.cells.ids
    if not ids:
        raise InvalidInput(NO_ENCRYPTION, cure="Set PERDURE_ENCRYPTION_KEY (docs/security.md).")
    rows = await rows_by_key(stores.database, stop=stop)
    blobs = await blobs_by_key(stores, stop=stop)
    runs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    if gateway is not None:
        async for found in gateway.retained():
            for key in found.keys:
                runs[key][found.run] = None
            if stop():
                break
    known = {key.id: key for key in await KeyRegistry(stores.database).known()}
    # In order, because callers take the first one for the current key.
    names = dict.fromkeys((*ids, *known, *rows, *blobs, *runs))
    return [
        KeyUse(
            id=name,
            current=name == ids[0],
            configured=name in ids,
            rows=rows[name],
            blobs=blobs[name],
            runs=tuple(runs[name]) if name in runs else (),
            retired_at=known[name].retired_at if name in known else None,
            whole=not stop(),
        )
        for name in names
    ]


async def rewrap_all(stores: Stores) -> Rewrapped:
    """Encrypt rows and blobs of older keys again; histories stay as they are.

    Raises:
        InvalidInput: there is no key.
    """
    if not stores.database.cells.ids:
        raise InvalidInput(NO_ENCRYPTION, cure="Set PERDURE_ENCRYPTION_KEY (docs/security.md).")
    rows, blobs, unreadable = await rewrap(stores)
    return Rewrapped(rows=rows, blobs=blobs, unreadable=unreadable)


async def retire(
    stores: Stores, gateway: RunGateway, key: str, *, now: datetime, lost: bool = False
) -> KeyUse:
    """Retire a key that nothing needs, or a lost key with all that it encrypted.

    Raises:
        NotFound: there is no key with this id.
        NotAllowed: something needs the key; the message says what.
    """
    uses = await key_uses(stores, gateway)
    use = next((one for one in uses if one.id == key), None)
    if use is None:
        raise NotFound(f"There is no encryption key {key!r}.", cure="`perdure keys` lists them.")
    # A lost key may be retired although content needs it; a configured key is not lost.
    if not (lost and not use.configured):
        require_retirable(use)
    await KeyRegistry(stores.database).retire(key, at=now)
    return use.model_copy(update={"retired_at": now})
