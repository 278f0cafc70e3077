"""A codec of somebody else's that raises what is no error."""

import asyncio
from collections.abc import Sequence

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from perdure.adapters.handing_on import HandedOn, why_unreadable
from perdure.domain.foundation.errors import StoreError
from perdure.extending.foreign_code import CodeEnded


class Raising(PayloadCodec):
    """Raises what a test says."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raise it."""
        raise self._error

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Raise it."""
        raise self._error


PAYLOAD = Payload(metadata={"encoding": b"json/plain"}, data=b"1")


@pytest.mark.parametrize("way", ["encode", "decode"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (SystemExit(3), r"sys.exit\(3\)"),
        (asyncio.CancelledError(), "cancelled, which nobody had asked for"),
    ],
    ids=["an exit", "a stray cancellation"],
)
async def test_a_codec_ends_neither_the_process_nor_the_task(
    way: str, error: BaseException, words: str
) -> None:
    codec = HandedOn(Raising(error))
    with pytest.raises(CodeEnded, match=words):
        await (codec.encode([PAYLOAD]) if way == "encode" else codec.decode([PAYLOAD]))


async def test_what_it_cannot_open_is_handed_on_with_the_reason() -> None:
    (handed_on,) = await HandedOn(Raising(StoreError("another key"))).decode([PAYLOAD])
    assert "another key" in (why_unreadable(handed_on) or "")
