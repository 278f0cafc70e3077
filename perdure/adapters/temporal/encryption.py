"""Encrypts everything that Temporal stores: AES-GCM payloads that name their key.

The server, its database and its Web UI see only encrypted bytes. Whoever has the key reads them
through a codec server (`perdure codec`). Old keys only decrypt. If a key is set, unencrypted values
are refused, so access to the server alone is not enough to control runs.
"""

import os
import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    ActivitySerializationContext,
    PayloadCodec,
    SerializationContext,
    WithSerializationContext,
    WorkflowSerializationContext,
)

from perdure.domain.foundation.errors import StoreError

ENCODING = b"binary/encrypted"
KEY_ID = "encryption-key-id"
BOUND_TO = "bound-to"
KEY_BYTES = 32
ID_BYTES = 8
NONCE_BYTES = 12
_SCHEDULED = re.compile(r"-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")


@dataclass(frozen=True, slots=True)
class _Key:
    """A key for payloads and its public id, both derived from the installation's key."""

    id: str
    cipher: AESGCM


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a payload belongs: a workflow of a namespace."""

    namespace: str
    workflow: str

    @property
    def name(self) -> str:
        return f"{self.namespace}/{self.workflow}"

    def holds(self, name: str) -> bool:
        """Whether a payload that was encrypted for the workflow `name` may be read here."""
        # A schedule encrypts the task for its workflow id; the server appends the time to that.
        return name in {self.name, f"{self.namespace}/{_SCHEDULED.sub('', self.workflow)}"}


class EncryptionCodec(PayloadCodec, WithSerializationContext):
    """Encrypts payloads with the first key, and decrypts with any.

    In the context of a workflow, a payload is encrypted for that workflow alone. A payload of
    another workflow is refused there, and so is an unencrypted one. Without a context, as in tools
    that read histories from outside, everything is decrypted if possible.

    Args:
        keys: 32 secret bytes each, the current one first.
        plain: read unencrypted payloads too, for runs from before there was a key.
        placed: refuse payloads that were encrypted for another workflow.
    """

    def __init__(self, keys: Sequence[bytes], *, plain: bool = False, placed: bool = True) -> None:
        made = [_key(key) for key in keys]
        self._current = made[0]
        self._known = {key.id: key for key in made}
        self._reads_plain = plain
        self._placed = placed
        self._place: _Place | None = None

    def with_context(self, context: SerializationContext) -> "EncryptionCodec":
        """The same codec for payloads of one workflow."""
        if not isinstance(context, WorkflowSerializationContext | ActivitySerializationContext):
            return self
        # An activity outside of runs, such as the question whether a worker is ready.
        if not context.workflow_id:
            return self
        # A copy: one codec serves the payloads of many workflows at the same time.
        bound = copy(self)
        bound._place = _Place(context.namespace, context.workflow_id)
        return bound

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Encrypt payloads; encrypted ones stay as they are."""
        place = None if self._place is None else self._place.name
        return [self.seal(payload, place) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Decrypt payloads.

        Raises:
            StoreError: one is damaged, has an unknown key, or must not be read here.
        """
        return [self._open(payload) for payload in payloads]

    def seal(self, payload: Payload, place: str | None) -> Payload:
        """Encrypt a payload, for a workflow alone if `place` (see `place_of`) names one."""
        if _is_sealed(payload):
            return payload
        # Random, as processes share the key and no counter: a nonce used twice would break GCM.
        key, nonce = self._current, os.urandom(NONCE_BYTES)
        metadata = {"encoding": ENCODING, KEY_ID: key.id.encode()}
        if place is not None:
            metadata[BOUND_TO] = place.encode()
        sealed = key.cipher.encrypt(nonce, payload.SerializeToString(), _associated(key, metadata))
        return Payload(metadata=metadata, data=nonce + sealed)

    def _open(self, payload: Payload) -> Payload:
        if not _is_sealed(payload):
            return self._plain(payload)
        name = payload.metadata[KEY_ID].decode(errors="replace")
        key = self._known.get(name)
        if key is None:
            raise StoreError(
                f"A value in Temporal was encrypted with the key {name}, which is not known here.",
                cure="Name that key in PERDURE_ENCRYPTION_KEY, or in PERDURE_ENCRYPTION_OLD_KEYS.",
            )
        self._check_place(payload)
        try:
            nonce, sealed = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
            content = key.cipher.decrypt(nonce, sealed, _associated(key, payload.metadata))
            return Payload.FromString(content)
        # A nonce of which a part is missing is a `ValueError`.
        except (InvalidTag, ValueError, DecodeError) as error:
            raise StoreError(
                f"A value in Temporal that names the key {name} cannot be decrypted:"
                " it is damaged.",
                cure="Restore Temporal's database from a backup, or start the run again.",
            ) from error

    def _plain(self, payload: Payload) -> Payload:
        """An unencrypted payload, if it may be read; an empty one is harmless."""
        foreign = not self._reads_plain and self._place is not None
        if foreign and payload.data:
            raise StoreError(
                "A value came unencrypted although a key is set, so it was not used.",
                cure="Send it with `perdure`, or through the codec server (`perdure codec`). For"
                " runs from before there was a key, set PERDURE_ENCRYPTION_PLAIN=read.",
            )
        return payload

    def _check_place(self, payload: Payload) -> None:
        # Payloads from the codec server or an older version are not bound to a workflow.
        meant = payload.metadata.get(BOUND_TO)
        if meant is None or self._place is None or not self._placed:
            return
        name = meant.decode(errors="replace")
        if not self._place.holds(name):
            raise StoreError(
                f"A value that was encrypted for {name} came to {self._place.name}: it was moved.",
                cure="Send it anew to the run that it is meant for.",
            )


def place_of(payload: Payload) -> str | None:
    """The namespace and workflow that a payload was encrypted for, as `NAMESPACE/WORKFLOW`."""
    found = payload.metadata.get(BOUND_TO)
    return None if found is None else found.decode(errors="replace")


def _associated(key: _Key, metadata: Mapping[str, bytes]) -> bytes:
    """The associated data of the cipher: the key, and the workflow if there is one."""
    # Whoever can write to the server could name another workflow, but not make the cipher agree.
    place = metadata.get(BOUND_TO)
    return key.id.encode() if place is None else key.id.encode() + b"\n" + place


def _is_sealed(payload: Payload) -> bool:
    return payload.metadata.get("encoding") == ENCODING


def _key(secret: bytes) -> _Key:
    # The two texts are part of every key: with others, nothing old could be decrypted.
    return _Key(
        id=_derive(secret, b"perdure payload key id", ID_BYTES).hex(),
        cipher=AESGCM(_derive(secret, b"perdure payload content", KEY_BYTES)),
    )


def _derive(secret: bytes, purpose: bytes, size: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=size, salt=None, info=purpose).derive(secret)
