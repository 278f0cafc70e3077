"""The SDK makes converters for each task and payload; what they know is learned once."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ExternalStorage,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from perdure.adapters.temporal.data_converter import (
    CompactConverter,
    TolerantPayloads,
    data_converter,
)
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.ports import BlobStore
from tests.support.memory_blobs import MemoryBlobs


class Read(FrozenModel):
    """A type that nothing else reads."""

    value: int


def test_a_type_is_looked_at_once() -> None:
    plain = TolerantPayloads().converters[b"json/plain"]
    assert isinstance(plain, CompactConverter)
    before = plain._type_adapter.cache_info().misses
    for _ in range(3):
        converter = TolerantPayloads()
        told = converter.to_payloads([Read(value=1)])
        assert converter.from_payloads(told, [Read]) == [Read(value=1)]
    assert plain._type_adapter.cache_info().misses == before + 1


class Elsewhere(StorageDriver):
    """A driver of somebody else's, which may ask for the context."""

    def name(self) -> str:
        return "elsewhere"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        raise NotImplementedError

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        raise NotImplementedError


def test_a_context_is_bound_only_where_a_driver_may_ask_for_it() -> None:
    context = StorageDriverStoreContext(target=None)
    ours = data_converter(cast(BlobStore, MemoryBlobs()), tolerant=True)
    assert ours._with_store_context(context) is ours
    theirs = replace(ours, external_storage=ExternalStorage(drivers=[Elsewhere()]))
    assert theirs._with_store_context(context) is not theirs
