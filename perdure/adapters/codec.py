"""Encryption of everything that Temporal keeps: payloads sealed with AES-GCM, each naming its key.

The server, its database and its Web UI see sealed bytes alone; who has the key reads them by a
codec server (`perdure codec`). Old keys open what was sealed with them, and seal nothing any more.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from perdure.domain.errors import StoreError

ENCODING = b"binary/encrypted"
KEY_ID = "encryption-key-id"
KEY_BYTES = 32
ID_BYTES = 8
NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class _Key:
    """A key for payloads and its public name, both made from the installation's key."""

    id: str
    cipher: AESGCM


class SealedPayloads(PayloadCodec):
    """Seals payloads with the first key, and opens those of any.

    Args:
        keys: 32 secret bytes each, the current one first.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        made = [_key(key) for key in keys]
        self._current = made[0]
        self._known = {key.id: key for key in made}

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Seal payloads; what is sealed already stays as it is."""
        return [self._seal(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Open sealed payloads; others, from before there was a key, pass.

        Raises:
            StoreError: another key sealed one of them, or it is damaged.
        """
        return [self._open(payload) for payload in payloads]

    def _seal(self, payload: Payload) -> Payload:
        if _is_sealed(payload):
            return payload
        key, nonce = self._current, os.urandom(NONCE_BYTES)
        sealed = key.cipher.encrypt(nonce, payload.SerializeToString(), key.id.encode())
        return Payload(
            metadata={"encoding": ENCODING, KEY_ID: key.id.encode()}, data=nonce + sealed
        )

    def _open(self, payload: Payload) -> Payload:
        if not _is_sealed(payload):
            return payload
        name = payload.metadata[KEY_ID].decode(errors="replace")
        key = self._known.get(name)
        if key is None:
            raise StoreError(
                f"A value in Temporal was encrypted with the key {name}, which is not known here.",
                cure="Name that key in PERDURE_ENCRYPTION_KEY, or in PERDURE_ENCRYPTION_OLD_KEYS.",
            )
        try:
            nonce, sealed = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
            return Payload.FromString(key.cipher.decrypt(nonce, sealed, key.id.encode()))
        except (InvalidTag, ValueError, DecodeError) as error:
            raise StoreError(
                f"A value in Temporal that names the key {name} cannot be decrypted:"
                " it is damaged.",
                cure="Restore Temporal's database from a backup, or start the run again.",
            ) from error


def _is_sealed(payload: Payload) -> bool:
    return payload.metadata.get("encoding") == ENCODING


def _key(secret: bytes) -> _Key:
    return _Key(
        id=_derive(secret, b"perdure payload key id", ID_BYTES).hex(),
        cipher=AESGCM(_derive(secret, b"perdure payload content", KEY_BYTES)),
    )


def _derive(secret: bytes, purpose: bytes, size: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=size, salt=None, info=purpose).derive(secret)
