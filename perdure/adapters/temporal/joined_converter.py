"""Perdure's converter for a client with a converter of its own.

Models of Perdure are converted as our workers write them. Everything else is converted by the
converter that the client was given, and its codec is kept.
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
from perdure.adapters.temporal.data_converter import (
    EXTERNAL_THRESHOLD_BYTES,
    BlobDriver,
    TolerantPayloads,
)
from perdure.adapters.temporal.encryption import EncryptionCodec
from perdure.adapters.temporal.failure_converter import EncodedFailures
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.ports import BlobStore
from perdure.domain.run.message_forms import Misread
from perdure.domain.run.task_start import TaskInput

# For loops, our converter can replace these: it reads and writes all that they do.
PLAIN = (DefaultPayloadConverter, PydanticPayloadConverter)
PACKAGE = "perdure."
LEVELS = 8  # how deep lists and objects are searched for models of ours


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
        theirs: the client's own converter; its codec and external storage are kept.
        keys: the keys of the installation; they also encrypt what the client sends.
        plain: with keys, also read unencrypted payloads.
        codec: the codec of the settings, used if theirs has none.
        placed: with keys, refuse payloads that were encrypted for another workflow.

    Raises:
        InvalidInput: there are both keys and a codec of their own.
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
    return issubclass(converter.payload_converter_class, Beside)


def reads_by_default_rules(converter: DataConverter) -> bool:
    """Whether what is not ours is converted by Temporal's default converter."""
    known = converter.payload_converter_class
    return issubclass(known, Beside) and known.theirs is DefaultPayloadConverter


def of_loops(converter: DataConverter, blobs: BlobStore) -> DataConverter:
    """The converter of the workers that run loops, made from that of the client."""
    return _tolerant(converter, _storage(converter, blobs))


def of_replays(converter: DataConverter) -> DataConverter:
    """The converter for replays of loops, made from that of the replayer; it has no blob store."""
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
    """Our driver stores what loops send; theirs only fetch what their client has sent."""
    codec, given = converter.payload_codec, converter.external_storage
    ours = BlobDriver(blobs, codec if isinstance(codec, EncryptionCodec) else None)
    theirs: Sequence[StorageDriver] = () if given is None else given.drivers
    return ExternalStorage(
        # The SDK refuses two drivers of one name; a client may have ours already.
        drivers=[ours, *(one for one in theirs if one.name() != ours.name())],
        driver_selector=lambda _context, _payload: ours,
        payload_size_threshold=EXTERNAL_THRESHOLD_BYTES,
    )


class Beside(PayloadConverter, WithSerializationContext):
    """Converts our models itself, and leaves all else to another converter.

    The other converter gets the same calls as without this one, unless a value or a declared type
    is ours.
    """

    theirs: type[PayloadConverter] = DefaultPayloadConverter

    def __init__(self, other: PayloadConverter | None = None) -> None:
        super().__init__()
        self._ours = TolerantPayloads()
        self._other = other or self.theirs()

    def with_context(self, context: SerializationContext) -> Self:
        """The same converter, with the other one bound to the context; ours needs none."""
        if not isinstance(self._other, WithSerializationContext):
            return self
        bound = self._other.with_context(context)
        return self if bound is self._other else type(self)(bound)

    def to_payloads(self, values: Sequence[object]) -> list[Payload]:
        """Encode values: our models with our converter, others with theirs."""
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
        """Decode values: types of ours with our converter, others with theirs."""
        marked = any(why_unreadable(payload) is not None for payload in payloads)
        if not marked and not any(_names_ours(hint) for hint in type_hints or ()):
            return self._other.from_payloads(payloads, type_hints)
        # The SDK gives none where their number is not that of the values.
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
        """Decode a task with our converter, or with theirs if it is not our JSON."""
        (read,) = self._ours.from_payloads([payload], [TaskInput])
        if not isinstance(read, Misread) or self.theirs in PLAIN:
            return read
        try:
            return TaskInput.model_validate(self._value(payload, None))
        except (ValidationError, ValueError, TypeError, RuntimeError):
            return read


@cache
def beside(theirs: type[PayloadConverter]) -> type[Beside]:
    """The class of a joined converter; the SDK takes a class, so theirs is bound to it."""
    if issubclass(theirs, Beside):
        return theirs  # the client has the plugin twice
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
    """Whether a declared type is ours or, like `list[RunResult]`, contains one of ours."""
    if isinstance(hint, type) and hint.__module__.startswith(PACKAGE):
        return True
    return any(_names_ours(one) for one in get_args(hint))
