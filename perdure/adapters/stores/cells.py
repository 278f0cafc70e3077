"""Text columns with content, sealed at rest when the store has a key.

A sealed text is bound to its column. What must be looked up is kept as a keyed digest instead:
equal values are equal, and without the key nobody can test whether a known one is there.
"""

import base64
import binascii
import hmac
import os
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import Dialect, Text, TypeDecorator

from perdure.adapters.stores.blob_encryption import NONCE_BYTES, derive
from perdure.domain.foundation.errors import InvalidInput, StoreError

MARK = "\x01sealed:"
DIGEST_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class _Key:
    cipher: AESGCM
    naming: bytes


class Cells:
    """Seals and opens the texts of one store.

    Args:
        keys: 32 secret bytes each. The first seals, all open; none leaves texts plain. What was
            written before there was a key is read as it is.
    """

    def __init__(self, *keys: bytes) -> None:
        self._keys = tuple(
            _Key(
                cipher=AESGCM(derive(key, b"perdure row content")),
                naming=derive(key, b"perdure row digest"),
            )
            for key in keys
        )

    @property
    def sealing(self) -> bool:
        """Whether there is a key."""
        return bool(self._keys)

    def seal(self, column: str, text: str) -> str:
        """A text as it is written."""
        if not self._keys:
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
        """A text as it was given; raises `StoreError` for one that no key opens."""
        if not stored.startswith(MARK):
            return stored
        try:
            body = base64.b64decode(stored.removeprefix(MARK), validate=True)
        except binascii.Error:
            body = b""
        for key in self._keys:
            try:
                nonce, sealed = body[:NONCE_BYTES], body[NONCE_BYTES:]
                return key.cipher.decrypt(nonce, sealed, column.encode()).decode()
            except (InvalidTag, ValueError):
                continue
        raise StoreError(
            f"A text in {column} is encrypted, and no key of this process opens it.",
            cure="Set the key it was written with in PERDURE_ENCRYPTION_KEY or"
            " PERDURE_ENCRYPTION_OLD_KEYS, or restore the database from a backup.",
        )

    def digest(self, text: str) -> str:
        """A text as it is looked up: itself without a key."""
        return self.digests(text)[0]

    def digests(self, text: str) -> list[str]:
        """All forms in which a text may have been written, the current one first."""
        made = [
            hmac.digest(key.naming, text.encode(), "sha256").hex()[:DIGEST_CHARACTERS]
            for key in self._keys
        ]
        return [*made, text]


PLAIN = Cells()
_CELLS: WeakKeyDictionary[Dialect, Cells] = WeakKeyDictionary()


def use_cells(dialect: Dialect, cells: Cells) -> None:
    """Seal what goes through an engine's dialect from now on."""
    _CELLS[dialect] = cells


class Content(TypeDecorator[str]):
    """A text that is sealed where the store has a key; never compared in a query.

    Args:
        column: the table and column that a sealed text is bound to.
    """

    impl = Text
    cache_ok = True

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else _CELLS.get(dialect, PLAIN).seal(self.column, value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else _CELLS.get(dialect, PLAIN).open(self.column, value)
