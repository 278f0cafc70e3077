"""A value that cannot be read is refused with what is wrong with it."""

import json

import pytest
from temporalio.api.common.v1 import Payload

from perdure.adapters.temporal.data_converter import TolerantPayloads
from perdure.domain.run.message_forms import Unreadable

EMOJI = json.dumps({"text": "\U0001f600"}).encode()  # two escapes that make one character


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (rb'{"text": "cut \ud83d"}', "half a character"),
        (rb'{"\udc00": 1}', "half a character"),
        (b"{text", "it is no JSON: "),
        (b"\xff", "it is no JSON: "),
        (b"[" * 500 + EMOJI + b"]" * 500, "nested too deep"),
        (b"[" * 9000 + b"]" * 9000, "nested too deep"),
    ],
    ids=["half an emoji", "half a name", "no JSON", "no UTF-8", "deep", "deeper"],
)
def test_a_value_that_is_no_json_is_told_why(data: bytes, words: str) -> None:
    (value,) = TolerantPayloads().from_payloads(
        [Payload(metadata={"encoding": b"json/plain"}, data=data)]
    )
    assert isinstance(value, Unreadable)
    assert words in value.why


def test_an_emoji_is_read() -> None:
    payload = Payload(metadata={"encoding": b"json/plain"}, data=EMOJI)
    assert TolerantPayloads().from_payloads([payload]) == [{"text": "\U0001f600"}]
