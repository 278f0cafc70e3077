"""Perdure's converter inside the client of somebody else: their codec and their types stay theirs.

What is a model of ours travels as our workers write it. Everything else is converted as before.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    DataConverter,
    DefaultPayloadConverter,
    ExternalStorage,
    PayloadConverter,
)

from perdure.adapters.handing_on import HandedOn, TolerantConverter
from perdure.adapters.temporal.codec import EncryptionCodec
from perdure.adapters.temporal.data_converter import (
    EXTERNAL_THRESHOLD_BYTES,
    BlobDriver,
    TolerantPayloads,
)
from perdure.adapters.temporal.failure_converter import EncodedFailures
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.ports import BlobStore
from perdure.domain.run.message_forms import Misread
from perdure.domain.run.task_start import TaskInput

# Ours reads and writes all that these do.
PLAIN = (DefaultPayloadConverter, PydanticPayloadConverter)


def joined(
    theirs: DataConverter, *, keys: Sequence[bytes] = (), plain: bool = False
) -> DataConverter:
    """The converter of a client that starts loops and has work of its own.

    Args:
        theirs: what the client was given; its codec and external storage are kept.
        keys: of the installation; they seal what the client sends too.
        plain: with keys, read what nobody sealed too.

    Raises:
        InvalidInput: their codec and our keys both want to seal.
    """
    if keys and theirs.payload_codec is not None:
        raise InvalidInput(
            "The client has a payload codec, and PERDURE_ENCRYPTION_KEY is set: both would "
            "encrypt.",
            cure="Unset PERDURE_ENCRYPTION_KEY, so that only your codec encrypts.",
        )
    known = theirs.payload_converter_class
    kind = TolerantPayloads if known in PLAIN else beside(known)
    made = replace(theirs, payload_converter_class=kind)
    if not keys:
        return made
    codec = EncryptionCodec(keys, plain=plain)
    return replace(made, payload_codec=codec, failure_converter_class=EncodedFailures)


def of_loops(converter: DataConverter, blobs: BlobStore) -> DataConverter:
    """The converter of the workers that run the loops, from that of the client beside them."""
    codec = converter.payload_codec
    ours = codec if isinstance(codec, EncryptionCodec) else None
    storage = ExternalStorage(
        drivers=[BlobDriver(blobs, ours)], payload_size_threshold=EXTERNAL_THRESHOLD_BYTES
    )
    return TolerantConverter(
        payload_converter_class=converter.payload_converter_class,
        payload_codec=None if codec is None else HandedOn(codec),
        failure_converter_class=converter.failure_converter_class,
        external_storage=storage,
    )


@cache
def beside(theirs: type[PayloadConverter]) -> type[PayloadConverter]:
    """A converter class that converts our models itself and leaves the rest to another."""

    class Beside(PayloadConverter):
        def __init__(self) -> None:
            super().__init__()
            self._ours = TolerantPayloads()
            self._theirs = theirs()

        def to_payloads(self, values: Sequence[object]) -> list[Payload]:
            return [
                payload
                for value in values
                for payload in self._of(type(value)).to_payloads([value])
            ]

        def from_payloads(
            self, payloads: Sequence[Payload], type_hints: list[type] | None = None
        ) -> list[object]:
            hints = type_hints or [None] * len(payloads)
            return [
                self._task(payload) if hint is TaskInput else self._value(payload, hint)
                for payload, hint in zip(payloads, hints, strict=True)
            ]

        def _value(self, payload: Payload, hint: type | None) -> object:
            (value,) = self._of(hint).from_payloads([payload], None if hint is None else [hint])
            return value

        def _task(self, payload: Payload) -> object:
            """A task as their client wrote it, where that is no JSON of ours."""
            (read,) = self._ours.from_payloads([payload], [TaskInput])
            if not isinstance(read, Misread):
                return read
            try:
                return TaskInput.model_validate(self._value(payload, None))
            except (ValidationError, ValueError, TypeError, RuntimeError):
                return read

        def _of(self, kind: type | None) -> PayloadConverter:
            module = getattr(kind, "__module__", "")
            return self._ours if module.startswith("perdure.") else self._theirs

    return Beside
