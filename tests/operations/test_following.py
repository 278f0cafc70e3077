"""What following addresses says of a blob that cannot be read."""

from types import SimpleNamespace
from typing import cast

import pytest

from perdure.domain.foundation.errors import NotFound, PerdureError, StoreAway, StoreError
from perdure.domain.ports import BlobStore
from perdure.operations.following import content, reachable

ADDRESS = "sha256:" + "ab" * 32


def failing(error: PerdureError) -> BlobStore:
    """A store that has only this to say."""

    async def get(_address: str) -> bytes:
        raise error

    return cast(BlobStore, SimpleNamespace(get=get))


async def test_a_blob_that_is_gone_leads_nowhere() -> None:
    assert await reachable(failing(NotFound("gone")), {ADDRESS}) == {ADDRESS}


async def test_a_store_that_is_away_is_called_away() -> None:
    """An outage heals: a collection begins anew, and nobody looks for a backup."""
    away = StoreAway("The database cannot be reached.", cure="Wait.")
    with pytest.raises(StoreAway) as caught:
        await content(failing(away), ADDRESS)
    assert caught.value is away


async def test_a_blob_that_cannot_be_read_says_what_follows() -> None:
    with pytest.raises(StoreError, match="nothing was deleted") as caught:
        await content(failing(StoreError("It is sealed.")), ADDRESS)
    assert not isinstance(caught.value, StoreAway)
    assert "backup" in (caught.value.cure or "")
