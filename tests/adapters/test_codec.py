"""Sealed payloads: what comes back, what nobody can read, and keys that were turned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload

from perdure.adapters.codec import KEY_ID, SealedPayloads
from perdure.domain.errors import StoreError

KEY, OLD, OTHER = bytes(range(32)), bytes(32), b"o" * 32


def _payload(data: bytes) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=data)


@given(data=st.binary(max_size=2_000))
async def test_what_is_sealed_comes_back(data: bytes) -> None:
    codec = SealedPayloads([KEY])
    (sealed,) = await codec.encode([_payload(data)])
    assert await codec.decode([sealed]) == [_payload(data)]


async def test_nothing_of_the_content_is_left() -> None:
    codec = SealedPayloads([KEY])
    first, second = await codec.encode([_payload(b"a secret goal")] * 2)
    assert b"secret" not in first.SerializeToString()
    assert b"json/plain" not in first.SerializeToString()
    assert first.data != second.data
    assert KEY not in first.metadata[KEY_ID] + first.data
    assert await codec.encode([first]) == [first]


async def test_plain_payloads_from_before_the_key_pass() -> None:
    assert await SealedPayloads([KEY]).decode([_payload(b"plain")]) == [_payload(b"plain")]


async def test_an_old_key_opens_and_the_new_one_seals() -> None:
    (before,) = await SealedPayloads([OLD]).encode([_payload(b"x")])
    turned = SealedPayloads([KEY, OLD])
    assert await turned.decode([before]) == [_payload(b"x")]
    (after,) = await turned.encode([_payload(b"x")])
    assert await SealedPayloads([KEY]).decode([after]) == [_payload(b"x")]
    assert before.metadata[KEY_ID] != after.metadata[KEY_ID]


async def test_an_unknown_key_is_named() -> None:
    (sealed,) = await SealedPayloads([OTHER]).encode([_payload(b"x")])
    name = sealed.metadata[KEY_ID].decode()
    with pytest.raises(StoreError, match=f"with the key {name}, which is not known") as caught:
        await SealedPayloads([KEY]).decode([sealed])
    assert "PERDURE_ENCRYPTION_OLD_KEYS" in str(caught.value)


@pytest.mark.parametrize("cut", [0, 5, 12, -1], ids=["empty", "short", "nonce alone", "one off"])
async def test_damage_is_found(cut: int) -> None:
    codec = SealedPayloads([KEY])
    (sealed,) = await codec.encode([_payload(b"x")])
    sealed.data = sealed.data[:cut]
    with pytest.raises(StoreError, match="is damaged"):
        await codec.decode([sealed])
