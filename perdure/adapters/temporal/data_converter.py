"""Converts values for Temporal: pydantic JSON, compact, and never above a size limit.

Step messages leave out fields with default values. Inputs and states keep them, because a later
change of a default must not change a run in progress. Content normally travels by reference; as a
safety net, payloads above 256 KiB are kept in the blob store. With keys, everything is encrypted
before it leaves the process.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from pydantic import ValidationError
from pydantic_core import from_json
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    ExternalStorage,
    JSONPlainPayloadConverter,
    PayloadCodec,
    StorageDriverClaim,
    StorageDriverRetrieveContext,
    StorageDriverStoreContext,
)

from perdure.adapters.handing_on import (
    HandedOn,
    PlacelessDriver,
    TolerantConverter,
    why_lost,
    why_unreadable,
)
from perdure.adapters.temporal.encryption import (
    BOUND_TO,
    ENCODING,
    KEY_ID,
    EncryptionCodec,
    place_of,
)
from perdure.adapters.temporal.failure_converter import EncodedFailures, ShortFailures
from perdure.domain.foundation.base import ActivityMessage, WorkflowInput
from perdure.domain.foundation.errors import StoreError
from perdure.domain.foundation.problems import problems_of
from perdure.domain.foundation.tolerance import without_unknown
from perdure.domain.ports import BlobStore
from perdure.domain.run.message_forms import Misread, Unreadable, unreadable_report
from perdure.domain.run.messages import Message
from perdure.domain.run.spec import LoopInput
from perdure.event_log import get_logger

_log = get_logger(__name__)
PROBLEMS_TOLD = 8
NAME_CHARACTERS = 40
EXTERNAL_THRESHOLD_BYTES = 256 * 1024
# JavaScript sends one for an emoji that `slice` has cut.
HALF = "it holds half a character (a lone surrogate), as a text has whose end cuts an emoji in two"
TOO_DEEP = "it is nested too deep"
# Stands in the histories of runs: under another name, no stored payload would be found.
ADDRESS = "address"
SECONDS = "seconds"


class CompactConverter(PydanticJSONPlainPayloadConverter):
    """Pydantic JSON, in which step messages omit their defaults."""

    def to_payload(self, value: object) -> Payload | None:
        if isinstance(value, ActivityMessage):
            return Payload(
                metadata={"encoding": self.encoding.encode()},
                data=value.model_dump_json(exclude_defaults=True).encode(),
            )
        return super().to_payload(value)

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> object:
        """Decode one value; fields that only another version of Perdure knows are left out.

        What people write stays strict, since unknown fields there are typing errors.
        """
        try:
            return super().from_payload(payload, type_hint)
        except ValidationError as error:
            if _by_hand(payload, type_hint):
                raise
            data, unknown = without_unknown(payload.data, error)
            _tell(type_hint, unknown)
            known = Payload(metadata=payload.metadata, data=data.encode())
            try:
                return super().from_payload(known, type_hint)
            except ValidationError:
                raise error from None  # the first error names the unknown fields


def _by_hand(payload: Payload, type_hint: type | None) -> bool:
    """Whether a person may have written the value: a verb, or an input that nobody checked."""
    if not isinstance(type_hint, type):
        return False
    if issubclass(type_hint, LoopInput):
        given = json.loads(payload.data)
        site = given.get("site") if isinstance(given, dict) else None
        return not (isinstance(site, dict) and site.get("version"))
    return issubclass(type_hint, Message)


@cache
def _tell(type_hint: type | None, unknown: tuple[str, ...]) -> None:
    """Log unknown fields once, since a replay reads the same input many times."""
    what = getattr(type_hint, "__name__", str(type_hint))
    _log.warning("unknown_fields_left_out", what=what, fields=unknown)


def _encodings() -> dict[bytes, EncodingPayloadConverter]:
    usual = DefaultPayloadConverter.default_encoding_payload_converters
    compact = CompactConverter()
    ours = (compact if isinstance(one, JSONPlainPayloadConverter) else one for one in usual)
    return {one.encoding.encode(): one for one in ours}


_ENCODINGS = _encodings()


class PerdurePayloadConverter(CompositePayloadConverter):
    """The default converters, with our JSON converter."""

    def __init__(self) -> None:
        # Shared, with their caches of types: the SDK makes several converters for each task.
        self.converters = _ENCODINGS


class ClientPayloads(PerdurePayloadConverter):
    """The converter of clients; it says why an encrypted value cannot be read."""

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[object]:
        """Decode values.

        Raises:
            StoreError: one is encrypted with a key or codec that this process lacks.
        """
        for payload in payloads:
            if payload.metadata.get("encoding", b"") not in self.converters:
                raise _not_here(payload)
        return super().from_payloads(payloads, type_hints)


def _not_here(payload: Payload) -> StoreError:
    encoding, key = payload.metadata.get("encoding", b""), payload.metadata.get(KEY_ID)
    if encoding == ENCODING and key is not None:
        return StoreError(
            f"A value in Temporal was encrypted with the key {_name(key)}, and this process has "
            "no key.",
            cure="Set PERDURE_ENCRYPTION_KEY as the workers have it, or name the codec of your own "
            "that encrypted it in PERDURE_PAYLOAD_CODEC.",
        )
    return StoreError(
        f"A value in Temporal is encoded as {_name(encoding) or 'nothing'}, by a payload codec "
        "that this process does not have.",
        cure="Name the codec of your clients and workers in PERDURE_PAYLOAD_CODEC.",
    )


def _name(told: bytes) -> str:
    return told.decode(errors="replace")[:NAME_CHARACTERS]


class TolerantPayloads(PerdurePayloadConverter):
    """The converter of workflows: a value that cannot be read must not fail the workflow's task.

    An unreadable value without a declared type becomes `Unreadable`, an unreadable workflow input
    becomes `Misread`, and the workflow refuses it with a reason. The result of a step that is no
    report of it, as people send it by hand, becomes an `UnreadableReport`.
    """

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[object]:
        """Decode values; those with a declared type must be readable.

        Raises:
            RuntimeError: a value with a declared type could not be decrypted or fetched.
        """
        if type_hints is None:
            return [self._read(payload) for payload in payloads]
        return [
            self._declared(payload, hint)
            for payload, hint in zip(payloads, type_hints, strict=True)
        ]

    def _declared(self, payload: Payload, hint: type) -> object:
        """Decode one value with a declared type."""
        why = why_unreadable(payload)
        if why is not None and _is_request(hint) and why_lost(payload) is not None:
            return Misread(why)
        # Raw values are those of unknown signals, which are refused without being read.
        if why is not None and hint is not RawValue:
            # Not a `PerdureError`: that would end the run, which should wait for the key or blob.
            raise RuntimeError(why)
        try:
            (value,) = super().from_payloads([payload], [hint])
        except Exception as error:
            if _is_report(hint):
                return unreadable_report(hint.__name__, _plain(payload))
            if not _is_input(hint):
                raise
            return Misread(_wrong(payload, error))
        # Some encodings, as that of bytes and of nothing, are decoded without a look at the type.
        if _is_input(hint) and not isinstance(value, hint):
            encoding = _name(payload.metadata.get("encoding", b""))
            return Misread(f"it is sent as {encoding}; send it as json/plain")
        if _is_report(hint) and not _reports(value, hint, payload):
            return unreadable_report(hint.__name__, _plain(payload))
        return value

    def _read(self, payload: Payload) -> object:
        why = why_unreadable(payload)
        if why is not None:
            return Unreadable(why)
        try:
            (value,) = super().from_payloads([payload])
        except Exception:  # each converter has errors of its own
            # The stand-in for a value that no converter takes; None for an empty value.
            if not payload.data:
                return None
            encoding = _name(payload.metadata.get("encoding", b""))
            named = f"as {encoding} " if encoding else ""
            why = _no_json(payload.data) if encoding == "json/plain" else ""
            told = f"its {len(payload.data)} bytes {named}cannot be read"
            return Unreadable(f"{told}: {why}" if why else told)
        return value


def _is_request(hint: object) -> bool:
    """Whether a type is the request of a step, not its report."""
    if not isinstance(hint, type) or not issubclass(hint, ActivityMessage):
        return False
    # By the name, since requests and reports have the same base class.
    return hint.__name__.endswith("Request")


def _is_input(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, WorkflowInput)


def _is_report(hint: object) -> bool:
    """Whether a type is the report of a step, not its request."""
    return isinstance(hint, type) and issubclass(hint, ActivityMessage) and not _is_request(hint)


def _reports(value: object, hint: type, payload: Payload) -> bool:
    """Whether a decoded result comes from a worker, of this version or another."""
    if not isinstance(value, ActivityMessage) or not isinstance(value, hint):
        return False
    # What works says how long, so fields that nobody here knows are never all that it says. Other
    # reports of a newer version may have nothing but new fields beside their defaults.
    works = SECONDS in type(value).model_fields
    return bool(value.model_fields_set) or not works or _plain(payload) == {}


def _plain(payload: Payload) -> object:
    """A result as it was sent, for words about it."""
    try:
        return from_json(payload.data)
    except ValueError:
        return payload.data or None


def _no_json(data: bytes) -> str:
    """What makes a text unreadable that some languages take for JSON."""
    try:
        json.dumps(json.loads(data), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return HALF
    except ValueError as error:
        return f"it is no JSON: {error}"
    except RecursionError:
        pass
    return TOO_DEEP


def _wrong(payload: Payload, error: Exception) -> str:
    """What is wrong with an input that does not fit its type."""
    try:
        value: object = from_json(payload.data)
    except ValueError:
        return _no_json(payload.data)
    if not isinstance(error, ValidationError):
        return str(error)
    told = [str(problem) for problem in problems_of(error, value)]
    more = [f"and {len(told) - PROBLEMS_TOLD} more"] if len(told) > PROBLEMS_TOLD else []
    return "; ".join([*told[:PROBLEMS_TOLD], *more])


class BlobDriver(PlacelessDriver):
    """Keeps large payloads in the blob store, addressed by content.

    Payloads are decrypted first, since the store encrypts by itself. So equal payloads of a run
    have one address, and garbage collection can find the addresses in them. Each keeps the name of
    the workflow that it was encrypted for. Those of earlier versions have none.
    """

    def __init__(self, blobs: BlobStore, codec: EncryptionCodec | None = None) -> None:
        self._blobs = blobs
        self._codec = codec

    def name(self) -> str:
        """The driver's name in stored claims; it never changes."""
        return "perdure-blobs-v1"

    async def store(
        self, context: StorageDriverStoreContext, payloads: Sequence[Payload]
    ) -> list[StorageDriverClaim]:
        if self._codec is not None:
            opened = await self._codec.decode(payloads)
            places = map(place_of, payloads)
            payloads = [_named(*each) for each in zip(opened, places, strict=True)]
        return [
            StorageDriverClaim(
                claim_data={ADDRESS: await self._blobs.put(payload.SerializeToString())}
            )
            for payload in payloads
        ]

    async def retrieve(
        self, context: StorageDriverRetrieveContext, claims: Sequence[StorageDriverClaim]
    ) -> list[Payload]:
        """Fetch payloads; the store verifies them."""
        found = [
            Payload.FromString(await self._blobs.get(claim.claim_data[ADDRESS])) for claim in claims
        ]
        if self._codec is None:
            return found
        # The converter decrypts what it fetched, and refuses what is unencrypted or was moved.
        return [self._codec.seal(_named(one, None), place_of(one)) for one in found]


def _named(payload: Payload, place: str | None) -> Payload:
    """The payload, marked as one of this workflow; None takes the mark away."""
    metadata = {name: value for name, value in payload.metadata.items() if name != BOUND_TO}
    if place is not None:
        metadata[BOUND_TO] = place.encode()
    return Payload(metadata=metadata, data=payload.data)


def data_converter(
    blobs: BlobStore | None,
    keys: Sequence[bytes] = (),
    *,
    tolerant: bool = False,
    plain: bool = False,
    placed: bool = True,
    codec: PayloadCodec | None = None,
) -> DataConverter:
    """The converter of clients, workers and replays.

    Args:
        blobs: the store for large payloads; without it, they stay in the messages.
        keys: encrypt all payloads, the current key first; without keys, payloads are plain.
        tolerant: pass on what cannot be decrypted, with the reason, as workers and replays must.
        plain: with keys, also read unencrypted payloads.
        placed: with keys, refuse payloads that were encrypted for another workflow.
        codec: encodes payloads if there are no keys.
    """
    ours = EncryptionCodec(keys, plain=plain, placed=placed) if keys else None
    used = ours or codec
    kind = TolerantConverter if tolerant else DataConverter
    made = kind(
        payload_converter_class=TolerantPayloads if tolerant else ClientPayloads,
        payload_codec=HandedOn(used) if used and tolerant else used,
        failure_converter_class=EncodedFailures if used else ShortFailures,
    )
    if blobs is None:
        return made
    storage = ExternalStorage(
        drivers=[BlobDriver(blobs, ours)], payload_size_threshold=EXTERNAL_THRESHOLD_BYTES
    )
    return replace(made, external_storage=storage)
