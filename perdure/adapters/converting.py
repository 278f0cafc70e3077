"""How values travel through Temporal: JSON by pydantic, small, and never above a limit.

Step messages leave out fields that hold their default; inputs and states travel whole, because a
default that changes later must not change a run that is under way. What is above 256 KiB is kept
in the blob store and fetched back: a net below the rule that content travels by reference. With
keys, everything is sealed before it leaves the process.
"""

from collections.abc import Sequence
from dataclasses import replace

from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    ExternalStorage,
    JSONPlainPayloadConverter,
    StorageDriver,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from perdure.adapters.codec import SealedPayloads
from perdure.adapters.failures import EncodedFailures, ShortFailures
from perdure.domain.base import StepMessage
from perdure.domain.ports import BlobStore

EXTERNAL_THRESHOLD_BYTES = 256 * 1024
ADDRESS = "address"


class CompactConverter(PydanticJSONPlainPayloadConverter):
    """Pydantic JSON, in which step messages omit their defaults."""

    def to_payload(self, value: object) -> Payload | None:
        """Encode one value."""
        if isinstance(value, StepMessage):
            return Payload(
                metadata={"encoding": self.encoding.encode()},
                data=value.model_dump_json(exclude_defaults=True).encode(),
            )
        return super().to_payload(value)


class PerdurePayloads(CompositePayloadConverter):
    """The default converters, with ours in the place of JSON."""

    def __init__(self) -> None:
        compact = CompactConverter()
        super().__init__(
            *(
                compact if isinstance(converter, JSONPlainPayloadConverter) else converter
                for converter in DefaultPayloadConverter.default_encoding_payload_converters
            )
        )


class BlobDriver(StorageDriver):
    """Keeps large payloads in the blob store, by content.

    The store seals its content itself, so a sealed payload is opened first: equal ones keep one
    address, and what they name can be found when the store is cleaned up.
    """

    def __init__(self, blobs: BlobStore, codec: SealedPayloads | None = None) -> None:
        self._blobs = blobs
        self._codec = codec

    def name(self) -> str:
        """The driver's name in stored claims; it never changes."""
        return "perdure-blobs-v1"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        """Store payloads and return where they are."""
        if self._codec is not None:
            payloads = await self._codec.decode(payloads)
        return [
            StorageDriverClaim(
                claim_data={ADDRESS: await self._blobs.put(payload.SerializeToString())}
            )
            for payload in payloads
        ]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Fetch payloads back, verified by the store."""
        return [
            Payload.FromString(await self._blobs.get(claim.claim_data[ADDRESS])) for claim in claims
        ]


def data_converter(blobs: BlobStore | None, keys: Sequence[bytes] = ()) -> DataConverter:
    """The converter of clients, workers and replays.

    Args:
        blobs: where large payloads are kept; without a store nothing is offloaded.
        keys: seal what Temporal is told, the current key first; without any it is plain.
    """
    codec = SealedPayloads(keys) if keys else None
    plain = DataConverter(
        payload_converter_class=PerdurePayloads,
        payload_codec=codec,
        failure_converter_class=EncodedFailures if keys else ShortFailures,
    )
    if blobs is None:
        return plain
    storage = ExternalStorage(
        drivers=[BlobDriver(blobs, codec)], payload_size_threshold=EXTERNAL_THRESHOLD_BYTES
    )
    return replace(plain, external_storage=storage)
