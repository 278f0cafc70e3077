"""References to content in the blob store; they carry size, so workflows decide without content."""

import re

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.tokens import TokenSizes


class BlobRef(FrozenModel):
    """The address of a blob: `sha256:<hex>`, or `hmac:<hex>` where the store encrypts."""

    hash: str
    bytes: int = 0
    tokens: TokenSizes = TokenSizes()


_ADDRESS = re.compile(rb"(?:sha256|hmac):[0-9a-f]{64}")


def addresses_in(data: bytes) -> set[str]:
    """Every address that stands anywhere in this content."""
    return {match.decode() for match in _ADDRESS.findall(data)}
