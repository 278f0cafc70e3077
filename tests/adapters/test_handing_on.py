"""A codec of somebody else's that raises what is no error."""

import asyncio
from collections.abc import Sequence

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import DataConverter, PayloadCodec

from perdure.adapters.handing_on import HandedOn, why_unreadable
from perdure.adapters.temporal.client import strict
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


async def test_a_strict_client_raises_what_that_of_a_worker_hands_on() -> None:
    converter = DataConverter(payload_codec=HandedOn(Raising(StoreError("another key"))))
    theirs = await Client.connect(
        "127.0.0.1:1", namespace="orders", data_converter=converter, lazy=True
    )
    client = strict(theirs)
    assert (client.namespace, client.service_client) == ("orders", theirs.service_client)
    codec = client.data_converter.payload_codec
    assert codec is not None
    with pytest.raises(StoreError, match="another key"):
        await codec.decode([PAYLOAD])
