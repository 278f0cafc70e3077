"""Perdure's converter inside the client of somebody else: their codec and their types stay theirs.

What is a model of ours travels as our workers write it. Everything else is converted as before, by
the very converter that the client was given.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Self, get_args

from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.contrib.pydantic import PydanticPayloadConverter
from temporalio.converter import (
    DataConverter,
    DefaultPayloadConverter,
    ExternalStorage,
    PayloadCodec,
    PayloadConverter,
    SerializationContext,
    StorageDriver,
    WithSerializationContext,
)

from perdure.adapters.handing_on import HandedOn, TolerantConverter, why_unreadable
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

# Between loops and what they are given, ours reads and writes all that these do.
PLAIN = (DefaultPayloadConverter, PydanticPayloadConverter)
PACKAGE = "perdure."
LEVELS = 8  # of lists and objects in which models of ours are looked for


def joined(
    theirs: DataConverter,
    *,
    keys: Sequence[bytes] = (),
    plain: bool = False,
    codec: PayloadCodec | None = None,
    placed: bool = True,
) -> DataConverter:
    """The converter of a client that starts loops and has work of its own.

    Args:
        theirs: what the client was given; its codec and external storage are kept.
        keys: of the installation; they seal what the client sends too.
        plain: with keys, read what nobody sealed too.
        codec: of the settings; it seals where theirs has none.
        placed: with keys, refuse what was sealed for another workflow.

    Raises:
        InvalidInput: their codec and our keys both want to seal.
    """
    if keys and theirs.payload_codec is not None:
        raise InvalidInput(
            "The client has a payload codec, and PERDURE_ENCRYPTION_KEY is set: both would "
            "encrypt.",
            cure="Unset PERDURE_ENCRYPTION_KEY, so that only your codec encrypts.",
        )
    made = replace(
        theirs,
        payload_converter_class=beside(theirs.payload_converter_class),
        payload_codec=theirs.payload_codec or codec,
    )
    if not keys:
        return made
    sealing = EncryptionCodec(keys, plain=plain, placed=placed)
    return replace(made, payload_codec=sealing, failure_converter_class=EncodedFailures)


def is_joined(converter: DataConverter) -> bool:
    """Whether `joined` made it."""
    return issubclass(converter.payload_converter_class, Beside)


def of_loops(converter: DataConverter, blobs: BlobStore) -> DataConverter:
    """The converter of the workers that run the loops, from that of the client beside them."""
    return _tolerant(converter, _storage(converter, blobs))


def of_replays(converter: DataConverter) -> DataConverter:
    """The converter that replays loops, from that of the replayer; it has no store."""
    return _tolerant(converter, converter.external_storage)


def _tolerant(converter: DataConverter, storage: ExternalStorage | None) -> DataConverter:
    codec, known = converter.payload_codec, converter.payload_converter_class
    plain = issubclass(known, Beside) and known.theirs in PLAIN
    return TolerantConverter(
        payload_converter_class=TolerantPayloads if plain else known,
        payload_codec=None if codec is None else HandedOn(codec),
        failure_converter_class=converter.failure_converter_class,
        external_storage=storage,
    )


def _storage(converter: DataConverter, blobs: BlobStore) -> ExternalStorage:
    """Ours keeps what the loops send; theirs only fetch what their client has sent."""
    codec, given = converter.payload_codec, converter.external_storage
    ours = BlobDriver(blobs, codec if isinstance(codec, EncryptionCodec) else None)
    theirs: Sequence[StorageDriver] = () if given is None else given.drivers
    return ExternalStorage(
        drivers=[ours, *(one for one in theirs if one.name() != ours.name())],
        driver_selector=lambda _context, _payload: ours,
        payload_size_threshold=EXTERNAL_THRESHOLD_BYTES,
    )


class Beside(PayloadConverter, WithSerializationContext):
    """Converts our models itself and leaves the rest to another converter, a class of its own.

    The other one sees the same calls as without us, unless a value or a declared type is ours.
    """

    theirs: type[PayloadConverter] = DefaultPayloadConverter

    def __init__(self, other: PayloadConverter | None = None) -> None:
        super().__init__()
        self._ours = TolerantPayloads()
        self._other = other or self.theirs()

    def with_context(self, context: SerializationContext) -> Self:
        """The same, with theirs in this context; ours needs none."""
        if not isinstance(self._other, WithSerializationContext):
            return self
        bound = self._other.with_context(context)
        return self if bound is self._other else type(self)(bound)

    def to_payloads(self, values: Sequence[object]) -> list[Payload]:
        """Encode values, each by the converter that it belongs to."""
        if not any(_has_ours(value) for value in values):
            return self._other.to_payloads(values)
        return [
            payload
            for value in values
            for payload in (self._ours if _has_ours(value) else self._other).to_payloads([value])
        ]

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[object]:
        """Decode values, each by the converter that its declared type belongs to."""
        marked = any(why_unreadable(payload) is not None for payload in payloads)
        if not marked and not any(_names_ours(hint) for hint in type_hints or ()):
            return self._other.from_payloads(payloads, type_hints)
        hints: list[type | None] = [*(type_hints or ()), *([None] * len(payloads))]
        return [
            self._task(payload) if hint is TaskInput else self._value(payload, hint)
            for payload, hint in zip(payloads, hints, strict=False)
        ]

    def _value(self, payload: Payload, hint: type | None) -> object:
        ours = _names_ours(hint) or why_unreadable(payload) is not None
        known = self._ours if ours else self._other
        (value,) = known.from_payloads([payload], None if hint is None else [hint])
        return value

    def _task(self, payload: Payload) -> object:
        """A task as their client wrote it, where that is no JSON of ours."""
        (read,) = self._ours.from_payloads([payload], [TaskInput])
        if not isinstance(read, Misread) or self.theirs in PLAIN:
            return read
        try:
            return TaskInput.model_validate(self._value(payload, None))
        except (ValidationError, ValueError, TypeError, RuntimeError):
            return read


@cache
def beside(theirs: type[PayloadConverter]) -> type[Beside]:
    """The class for one of theirs: a converter's class alone says what it does."""
    if issubclass(theirs, Beside):
        return theirs  # of a client that has the plugin twice
    return type("Beside", (Beside,), {"theirs": theirs})


def _has_ours(value: object, levels: int = LEVELS) -> bool:
    """Whether a value is a model of ours, or a list or object that holds one."""
    if type(value).__module__.startswith(PACKAGE):
        return True
    match value:
        case dict():
            held = tuple(value.values())
        case list() | tuple():
            held = tuple(value)
        case _:
            return False
    return bool(levels) and any(_has_ours(one, levels - 1) for one in held)


def _names_ours(hint: object) -> bool:
    """Whether a declared type is ours, or one such as `list[RunResult]` that names one."""
    if isinstance(hint, type) and hint.__module__.startswith(PACKAGE):
        return True
    return any(_names_ours(one) for one in get_args(hint))
