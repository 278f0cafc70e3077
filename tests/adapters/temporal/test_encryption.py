"""Sealed payloads: what comes back, what nobody can read, and keys that were turned."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    WorkflowSerializationContext,
)

from perdure.adapters.stores.open_stores import open_stores
from perdure.adapters.temporal.data_converter import ADDRESS, BlobDriver, data_converter
from perdure.adapters.temporal.encryption import BOUND_TO, KEY_ID, EncryptionCodec
from perdure.domain.foundation.errors import StoreError

KEY, OLD, OTHER = bytes(range(32)), bytes(32), b"o" * 32


def _payload(data: bytes) -> Payload:
    return Payload(metadata={"encoding": b"json/plain"}, data=data)


@given(data=st.binary(max_size=2_000))
async def test_what_is_sealed_comes_back(data: bytes) -> None:
    codec = EncryptionCodec([KEY])
    (sealed,) = await codec.encode([_payload(data)])
    assert await codec.decode([sealed]) == [_payload(data)]


async def test_nothing_of_the_content_is_left() -> None:
    codec = EncryptionCodec([KEY])
    first, second = await codec.encode([_payload(b"a secret goal")] * 2)
    assert b"secret" not in first.SerializeToString()
    assert b"json/plain" not in first.SerializeToString()
    assert first.data != second.data
    assert KEY not in first.metadata[KEY_ID] + first.data
    assert await codec.encode([first]) == [first]


async def test_plain_payloads_from_before_the_key_pass() -> None:
    assert await EncryptionCodec([KEY]).decode([_payload(b"plain")]) == [_payload(b"plain")]


async def test_an_old_key_opens_and_the_new_one_seals() -> None:
    (before,) = await EncryptionCodec([OLD]).encode([_payload(b"x")])
    turned = EncryptionCodec([KEY, OLD])
    assert await turned.decode([before]) == [_payload(b"x")]
    (after,) = await turned.encode([_payload(b"x")])
    assert await EncryptionCodec([KEY]).decode([after]) == [_payload(b"x")]
    assert before.metadata[KEY_ID] != after.metadata[KEY_ID]


async def test_an_unknown_key_is_named() -> None:
    (sealed,) = await EncryptionCodec([OTHER]).encode([_payload(b"x")])
    name = sealed.metadata[KEY_ID].decode()
    with pytest.raises(StoreError, match=f"with the key {name}, which is not known") as caught:
        await EncryptionCodec([KEY]).decode([sealed])
    assert "PERDURE_ENCRYPTION_OLD_KEYS" in str(caught.value)


@pytest.mark.parametrize("cut", [0, 5, 12, -1], ids=["empty", "short", "nonce alone", "one off"])
async def test_damage_is_found(cut: int) -> None:
    codec = EncryptionCodec([KEY])
    (sealed,) = await codec.encode([_payload(b"x")])
    sealed.data = sealed.data[:cut]
    with pytest.raises(StoreError, match="is damaged"):
        await codec.decode([sealed])


def _at(workflow: str, namespace: str = "default") -> WorkflowSerializationContext:
    return WorkflowSerializationContext(namespace=namespace, workflow_id=workflow)


def _step_of(workflow: str | None) -> ActivitySerializationContext:
    return ActivitySerializationContext(
        namespace="default", activity_id="1", activity_type="judge", activity_task_queue="q",
        workflow_id=workflow, workflow_type="Loop", is_local=False,
    )  # fmt: skip


async def test_a_payload_is_read_by_the_workflow_that_it_was_sealed_for() -> None:
    codec = EncryptionCodec([KEY])
    (sealed,) = await codec.with_context(_at("run-1")).encode([_payload(b"x")])
    assert sealed.metadata[BOUND_TO] == b"default/run-1"
    for reader in (_at("run-1"), _step_of("run-1")):
        assert await codec.with_context(reader).decode([sealed]) == [_payload(b"x")]
    assert await codec.decode([sealed]) == [_payload(b"x")]


@pytest.mark.parametrize(
    "place",
    [_at("run-2"), _at("run-1", "other"), _at("run-1-c1"), _at("run"), _step_of("run-2")],
    ids=["another run", "another namespace", "a child", "a beginning", "a step of another"],
)
async def test_a_payload_that_was_moved_is_refused(
    place: WorkflowSerializationContext | ActivitySerializationContext,
) -> None:
    codec = EncryptionCodec([KEY])
    (sealed,) = await codec.with_context(_at("run-1")).encode([_payload(b"x")])
    with pytest.raises(StoreError, match="it was moved"):
        await codec.with_context(place).decode([sealed])
    # Saying that it belongs here does not make it so.
    sealed.metadata[BOUND_TO] = f"{place.namespace}/{place.workflow_id}".encode()
    with pytest.raises(StoreError, match="is damaged"):
        await codec.with_context(place).decode([sealed])


@pytest.mark.parametrize("characters", [10, 400_000], ids=["in the message", "in the store"])
async def test_a_value_of_another_workflow_is_refused_wherever_it_is_kept(
    tmp_path: Path, characters: int
) -> None:
    stores = await open_stores(tmp_path, encryption_keys=[KEY])
    try:
        whole = data_converter(stores.blobs, [KEY])
        here, there = (whole.with_context(_at(name)) for name in ("run-1", "run-2"))
        sent = await here.encode(["x" * characters])
        assert await here.decode(sent) == ["x" * characters]
        assert await whole.decode(sent) == ["x" * characters], "outside of runs all is read"
        with pytest.raises(StoreError, match="encrypted for default/run-1 came to default/run-2"):
            await there.decode(sent)
    finally:
        await stores.close()


async def test_a_large_value_that_an_earlier_version_kept_is_read_in_any_workflow(
    tmp_path: Path,
) -> None:
    stores = await open_stores(tmp_path, encryption_keys=[KEY])
    try:
        driver = BlobDriver(stores.blobs, EncryptionCodec([KEY]))
        before = _payload(b"x")
        address = await stores.blobs.put(before.SerializeToString())
        claim = StorageDriverClaim(claim_data={ADDRESS: address})
        found = await driver.retrieve(StorageDriverRetrieveContext(), [claim])
        assert await EncryptionCodec([KEY]).with_context(_at("run-2")).decode(found) == [before]
    finally:
        await stores.close()


async def test_a_schedule_seals_for_the_runs_that_it_starts() -> None:
    codec = EncryptionCodec([KEY])
    (sealed,) = await codec.with_context(_at("mining")).encode([_payload(b"x")])
    started = codec.with_context(_at("mining-2026-11-22T10:00:00Z"))
    assert await started.decode([sealed]) == [_payload(b"x")]


async def test_what_nobody_sealed_is_refused_where_a_workflow_would_read_it() -> None:
    codec = EncryptionCodec([KEY])
    with pytest.raises(StoreError, match="came unencrypted") as caught:
        await codec.with_context(_at("run-1")).decode([_payload(b'{"choice": "approve"}')])
    assert "PERDURE_ENCRYPTION_PLAIN=read" in caught.value.cure
    lenient = EncryptionCodec([KEY], plain=True).with_context(_at("run-1"))
    assert await lenient.decode([_payload(b"x")]) == [_payload(b"x")]


async def test_nothing_at_all_needs_no_key() -> None:
    nothing = Payload(metadata={"encoding": b"binary/null"})
    assert await EncryptionCodec([KEY]).with_context(_at("run-1")).decode([nothing]) == [nothing]


async def test_what_an_older_version_sealed_stays_readable() -> None:
    (before,) = await EncryptionCodec([KEY]).encode([_payload(b"x")])
    assert BOUND_TO not in before.metadata
    assert await EncryptionCodec([KEY]).with_context(_at("run-1")).decode([before]) == [
        _payload(b"x")
    ]
