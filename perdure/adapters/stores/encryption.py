"""Encryption at rest of blobs and text columns, if the store has a key.

The address of an encrypted blob is an HMAC of the plaintext: equal content has one address, and
without the key nobody can test whether a known text is stored.

An encrypted text is bound to its column. A value that queries look up is kept as a keyed digest
instead: equal values have equal digests, and without the key nobody can test for a known value.
"""

import base64
import binascii
import hashlib
import hmac
import os
import re
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import Dialect, Text, TypeDecorator

from perdure.domain.foundation.errors import InvalidInput, NotFound, StoreError

KEY_BYTES = 32
NONCE_BYTES = 12
ID_BYTES = 8
FORMAT = b"\x01"
# Marks a blob that was encrypted again, with another key than the one its address comes from.
REWRAPPED = b"\x02"  # as long as FORMAT, since `renew` compares sizes
OVERHEAD_BYTES = len(FORMAT) + NONCE_BYTES + 16
PLAIN_BLOB = "sha256"
SEALED_BLOB = "hmac"

_ADDRESS = re.compile(rf"({PLAIN_BLOB}|{SEALED_BLOB}):[0-9a-f]{{64}}")


@dataclass(frozen=True, slots=True)
class _Lock:
    """One key in use: it makes addresses and encrypts content."""

    id: str
    naming: bytes
    cipher: AESGCM

    def address(self, data: bytes) -> str:
        return f"{SEALED_BLOB}:{hmac.digest(self.naming, data, 'sha256').hex()}"


class Vault:
    """Makes addresses of blobs, and encrypts and decrypts their content.

    Args:
        keys: 32 secret bytes each. The first one encrypts, the others decrypt older blobs. Without
            keys, blobs are stored as plain bytes; they stay readable when a key is added later.
    """

    def __init__(self, *keys: bytes) -> None:
        self._locks = tuple(_lock(key) for key in keys)

    def address(self, data: bytes) -> str:
        """The one address of this content in this store."""
        if not self._locks:
            return f"{PLAIN_BLOB}:{hashlib.sha256(data).hexdigest()}"
        return self._locks[0].address(data)

    def seal(self, address: str, data: bytes) -> bytes:
        if not self._locks:
            return data
        nonce = os.urandom(NONCE_BYTES)
        # The address is authenticated too, so that nobody can exchange the content of two blobs.
        return FORMAT + nonce + self._locks[0].cipher.encrypt(nonce, data, address.encode())

    def open(self, address: str, stored: bytes) -> bytes:
        """The content of stored bytes, verified against its address; raises `StoreError`."""
        if kind(address) == SEALED_BLOB:
            return self._decrypt(address, stored)
        if hashlib.sha256(stored).hexdigest() != address.partition(":")[2]:
            raise _damaged(address)
        return stored

    def stored_size(self, size: int) -> int:
        """How many bytes are stored for `size` bytes of content."""
        return size + OVERHEAD_BYTES if self._locks else size

    def _decrypt(self, address: str, stored: bytes) -> bytes:
        if not self._locks:
            raise StoreError(
                f"The blob {address} is encrypted, and this process has no key.",
                cure="Set the encryption key that the blob was written with.",
            )
        found = self._opened(address, stored)
        if found is None:
            raise StoreError(
                f"The blob {address} cannot be decrypted: another key wrote it, or it is damaged.",
                cure="Set the key it was written with, or restore the blob from a backup.",
            )
        lock, data = found
        # A blob that was encrypted again keeps the address that its first key gave it, which the
        # current key cannot compute. The cipher has authenticated both content and address.
        if not stored.startswith(REWRAPPED) and lock.address(data) != address:
            raise _damaged(address)
        return data

    def key_of(self, address: str, stored: bytes) -> str | None:
        """The id of the key that decrypts a blob; None if none of ours does."""
        found = self._opened(address, stored)
        return None if found is None else found[0].id

    def rewrapped(self, address: str, stored: bytes) -> bytes | None:
        """A blob encrypted with the current key; None if it is already, or no key decrypts it."""
        found = self._opened(address, stored)
        if found is None or found[0] is self._locks[0]:
            return None
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._locks[0].cipher.encrypt(nonce, found[1], address.encode())
        return REWRAPPED + nonce + sealed

    def _opened(self, address: str, stored: bytes) -> tuple[_Lock, bytes] | None:
        body = stored[len(FORMAT) :] if stored.startswith((FORMAT, REWRAPPED)) else stored
        for lock in self._locks:
            try:
                data = lock.cipher.decrypt(body[:NONCE_BYTES], body[NONCE_BYTES:], address.encode())
            except (InvalidTag, ValueError):
                continue
            return lock, data
        return None


def _lock(key: bytes) -> _Lock:
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            f"The encryption key has {len(key)} bytes instead of {KEY_BYTES}.",
            cure=f"Make one with: openssl rand -base64 {KEY_BYTES}.",
        )
    return _Lock(
        id=public_id(key),
        # These words make the keys: with other words, no stored address or blob fits any more.
        naming=derive(key, b"perdure blob address"),
        cipher=AESGCM(derive(key, b"perdure blob content")),
    )


def is_address(text: str) -> bool:
    """Whether a text has the form of an address of a blob."""
    return _ADDRESS.fullmatch(text) is not None


def kind(address: str) -> str:
    """`sha256` or `hmac`; raises `NotFound` for anything that is no address of a blob."""
    if not is_address(address):
        raise NotFound(
            f"{address[:80]!r} is not an address of a blob.",
            cure="An address is sha256: or hmac: with 64 hexadecimal digits.",
        )
    return address.partition(":")[0]


def public_id(key: bytes) -> str:
    """The id of a key in messages and payloads; it reveals nothing about the key."""
    return derive(key, b"perdure payload key id")[:ID_BYTES].hex()


def derive(key: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, derived from the installation's key."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=purpose).derive(key)


def _damaged(address: str) -> StoreError:
    return StoreError(
        f"The content of the blob {address} does not match its address: it is damaged.",
        cure="Restore it from a backup, or fork the run from an earlier iteration.",
    )


MARK = "\x01sealed:"
DIGEST_CHARACTERS = 32  # stored digests have this length, and only equal ones are found


@dataclass(frozen=True, slots=True)
class _Key:
    id: str
    cipher: AESGCM
    naming: bytes


class Cells:
    """Encrypts and decrypts the texts of one store.

    Args:
        keys: 32 secret bytes each. The first one encrypts, all decrypt. Without keys, texts stay
            plain; texts that were written before there was a key are read as they are.
    """

    def __init__(self, *keys: bytes) -> None:
        self._keys = tuple(
            _Key(
                id=public_id(key),
                cipher=AESGCM(derive(key, b"perdure row content")),
                naming=derive(key, b"perdure row digest"),
            )
            for key in keys
        )

    @property
    def sealing(self) -> bool:
        """Whether there is a key."""
        return bool(self._keys)

    @property
    def ids(self) -> tuple[str, ...]:
        """The keys by their public ids, the current one first."""
        return tuple(key.id for key in self._keys)

    def seal(self, column: str, text: str) -> str:
        if not self._keys:
            # Read with a key later, it would count as a text that no key opens.
            if text.startswith(MARK):
                raise InvalidInput(
                    f"A text for {column} begins with {MARK!r}, which marks sealed texts.",
                    cure="Leave out the control character at its beginning.",
                )
            return text
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._keys[0].cipher.encrypt(nonce, text.encode(), column.encode())
        return MARK + base64.b64encode(nonce + sealed).decode()

    def open(self, column: str, stored: str) -> str:
        """Decrypt a stored text; raises `StoreError` if no key decrypts it."""
        if not stored.startswith(MARK):
            return stored
        if (found := self._opened(column, stored)) is not None:
            return found[1]
        raise StoreError(
            f"A text in {column} is encrypted, and no key of this process opens it.",
            cure="Set the key it was written with in PERDURE_ENCRYPTION_KEY or"
            " PERDURE_ENCRYPTION_OLD_KEYS, or restore the database from a backup.",
        )

    def key_of(self, column: str, stored: str) -> str | None:
        """The id of the key that decrypts a text; None if none of ours does."""
        found = self._opened(column, stored)
        return None if found is None else found[0].id

    def _opened(self, column: str, stored: str) -> tuple[_Key, str] | None:
        try:
            body = base64.b64decode(stored.removeprefix(MARK), validate=True)
        except binascii.Error:
            return None
        nonce, sealed = body[:NONCE_BYTES], body[NONCE_BYTES:]
        for key in self._keys:
            try:
                return key, key.cipher.decrypt(nonce, sealed, column.encode()).decode()
            except (InvalidTag, ValueError):
                continue
        return None

    def digest(self, text: str) -> str:
        """The keyed digest by which queries find a text; without a key, the text itself."""
        return self.digests(text)[0]

    def digests(self, text: str) -> list[str]:
        """All digests under which a text may be stored, the current one first."""
        made = [
            hmac.digest(key.naming, text.encode(), "sha256").hex()[:DIGEST_CHARACTERS]
            for key in self._keys
        ]
        # Rows from before there was a key hold the text itself.
        return [*made, text]


PLAIN_CELLS = Cells()
# By engine: tables and their types are shared by all stores of a process, and keys are not.
_CELLS: WeakKeyDictionary[Dialect, Cells] = WeakKeyDictionary()


def use_cells(dialect: Dialect, cells: Cells) -> None:
    """Encrypt all content that goes through an engine's dialect from now on."""
    _CELLS[dialect] = cells


class Content(TypeDecorator[str]):
    """A text column, encrypted if the store has a key.

    Never compare it in a query: equal texts have different ciphertexts.

    Args:
        column: the table and column that an encrypted text is bound to.
    """

    impl = Text
    cache_ok = True

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else _CELLS.get(dialect, PLAIN_CELLS).seal(self.column, value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else _CELLS.get(dialect, PLAIN_CELLS).open(self.column, value)
