"""A payload codec of somebody else's: bytes backwards; what nobody turned passes."""

from collections.abc import Sequence

from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

PLACE = "upside_codec:made"


class Turning(PayloadCodec):
    """Turns what it is given."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Turned."""
        return [
            Payload(metadata={"encoding": b"upside"}, data=one.SerializeToString()[::-1])
            for one in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Turned back."""
        return [
            Payload.FromString(one.data[::-1]) if one.metadata["encoding"] == b"upside" else one
            for one in payloads
        ]


def made() -> PayloadCodec:
    """What `PERDURE_PAYLOAD_CODEC` names."""
    return Turning()


def failing() -> PayloadCodec:
    """One that has no key."""
    raise OSError("no key")


def exiting() -> PayloadCodec:
    """One that ends its process, as command lines do."""
    raise SystemExit(2)


def nothing() -> None:
    """No codec."""
