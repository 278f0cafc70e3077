"""Passes on values that cannot be decoded, so that one of them does not fail a whole workflow task.

A worker decodes all values of a workflow task before it looks at any. A value that raises there,
such as a signal encrypted with another installation's key or a reference to a blob that never
existed, would fail the task at every attempt, and the run could not go on. So it is replaced by an
*unreadable* value with the reason. A signal of that kind is refused. A step's result still fails
its task, with the reason, until the key or the blob is back. A step whose own input is lost ends,
and names it. If the store itself is away, the task waits.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    DataConverter,
    PayloadCodec,
    SerializationContext,
    StorageDriver,
    StorageDriverStoreContext,
    WithSerializationContext,
)

from perdure.domain.foundation.errors import InvalidInput, NotFound, StoreError
from perdure.extending.foreign_code import contained

UNREADABLE: Final = b"perdure/unreadable"
# Without `StoreError`: while the store is away, the task fails and is tried again.
FOREIGN = (NotFound, InvalidInput, RuntimeError, ValueError, TypeError, KeyError, DecodeError)
Opening = Callable[[Sequence[Payload]], Awaitable[list[Payload]]]


def unreadable(why: str, *, lost: bool = False) -> Payload:
    """The payload that replaces a value that cannot be decoded; `lost`: it is not in the store."""
    metadata = {"encoding": UNREADABLE} | ({"lost": b"1"} if lost else {})
    return Payload(metadata=metadata, data=why.encode(errors="replace"))


def why_lost(payload: Payload) -> str | None:
    """The reason in a payload that replaces a value that the store has lost; else None."""
    return why_unreadable(payload) if "lost" in payload.metadata else None


def why_unreadable(payload: Payload) -> str | None:
    """The reason in a payload that replaces a value; None for an ordinary payload."""
    if payload.metadata.get("encoding") != UNREADABLE:
        return None
    return payload.data.decode(errors="replace")


class HandedOn(PayloadCodec, WithSerializationContext):
    """A codec that passes on as unreadable what the wrapped codec cannot decode."""

    def __init__(self, codec: PayloadCodec) -> None:
        self._codec = codec

    def with_context(self, context: SerializationContext) -> "HandedOn":
        """The codec for payloads of one workflow."""
        codec = self._codec
        if not isinstance(codec, WithSerializationContext):
            return self
        return HandedOn(codec.with_context(context))

    @property
    def strict(self) -> PayloadCodec:
        """The wrapped codec, which raises what this one passes on."""
        return self._codec

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encode with the wrapped codec."""
        with contained():
            return await self._codec.encode(payloads)

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Each payload decoded, or replaced by the reason."""
        return [opened for payload in payloads for opened in await self._opened(payload)]

    async def _opened(self, payload: Payload) -> list[Payload]:
        # Storage has replaced it already, and the codec would refuse it as unencrypted.
        if why_unreadable(payload) is not None:
            return [payload]
        try:
            with contained():
                return await self._codec.decode([payload])
        except StoreError as error:  # another key, or damaged
            return [unreadable(str(error))]


class PlacelessDriver(StorageDriver):
    """Storage that keeps a payload alike, whichever workflow or activity it belongs to."""


@dataclass(frozen=True)
class TolerantConverter(DataConverter):
    """A data converter that passes on claims of external storage that cannot be resolved.

    The two methods that it overrides are private in the SDK, which has no public hook for this.
    """

    async def _decode_reference_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        return await _each(payloads, super()._decode_reference_payload_sequence)

    def _with_store_context(self, store_ctx: StorageDriverStoreContext) -> DataConverter:
        # Else the SDK makes new converters for each payload, to bind what no driver asks for.
        storage = self.external_storage
        if storage is None or all(isinstance(one, PlacelessDriver) for one in storage.drivers):
            return self
        return super()._with_store_context(store_ctx)

    async def _external_retrieve_payload_sequence(
        self, payloads: Sequence[Payload]
    ) -> list[Payload]:
        return await _each(payloads, super()._external_retrieve_payload_sequence)


async def _each(payloads: Sequence[Payload], opening: Opening) -> list[Payload]:
    """Resolve all at once; if that fails, one after the other, to find those that fail."""
    try:
        return await opening(payloads)
    except FOREIGN as error:
        if len(payloads) == 1:
            why = f"it claims to be kept elsewhere, and is not there: {error}"
            return [unreadable(why, lost=isinstance(error, NotFound))]
    return [found for payload in payloads for found in await _each([payload], opening)]
