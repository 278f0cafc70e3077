"""Runs whose answers a key or codec seals that is not set here: in words, none hides another."""

from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.api.common.v1 import Payload

from perdure.adapters.temporal.data_converter import data_converter
from perdure.domain.foundation.errors import NoReadyWorker, PerdureError, StoreAway, StoreError
from perdure.domain.ports import RecordStore
from perdure.domain.run.gates import Gate
from perdure.domain.run.status import RunWords
from perdure.gateway.error_mapping import update_translated
from perdure.gateway.execution_info import ExecutionInfo
from perdure.gateway.open_gates import GateReader
from perdure.gateway.temporal_gateway import TemporalGateway

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SEALED = StoreError("It is sealed.", cure="Get the codec.")
ANSWERS: dict[str, Sequence[Gate] | PerdureError] = {
    "open": (Gate(id="g1", kind="question", prompt="Which?", choices=(), opened_at=NOW),),
    "sealed": SEALED,
    "away": NoReadyWorker("Nobody is there."),
    "store-away": StoreAway("The store is away."),
}


class Answering:
    """A server whose waiting runs answer, or fail, as the table says."""

    async def page(self, *_: object, **__: object) -> tuple[list[ExecutionInfo], None]:
        """All of them."""
        looks = [
            ExecutionInfo(
                id=run, execution="e", kind="agent", ending=None, history_length=3,
                started_at=NOW, closed_at=None, facts={}, memo={},
            )
            for run in ANSWERS
        ]  # fmt: skip
        return looks, None

    async def query(self, run: str, *_: object) -> Sequence[Gate]:
        """The gates of one."""
        answer = ANSWERS[run]
        if isinstance(answer, PerdureError):
            raise answer
        return answer


async def test_a_run_that_cannot_be_opened_hides_no_other() -> None:
    async def installation() -> str:
        return "i"

    async def words(_ids: Sequence[str]) -> dict[str, RunWords]:
        return {}

    async def present(_queue: str) -> bool:
        return True

    found = await GateReader(
        server=cast(TemporalGateway, Answering()),
        records=cast(RecordStore, SimpleNamespace(installation=installation, words=words)),
        present=present,
    ).read()
    assert [one.run for one in found.gates] == ["open"]
    assert found.unread == ("sealed", "away", "store-away")
    assert found.reasons == {"sealed": "It is sealed. Get the codec."}


def test_a_verb_whose_answer_cannot_be_opened_may_have_been_taken() -> None:
    with pytest.raises(StoreError) as caught, update_translated("r", "pause"):
        raise SEALED
    assert caught.value.message == (
        "The run r answered `pause`, and its answer cannot be opened here: It is sealed."
    )
    assert caught.value.cure == "Get the codec. Then its status says whether `pause` was taken."


UNKNOWN: dict[str, tuple[dict[str, bytes], str, str]] = {
    "a codec": ({"encoding": b"theirs"}, "encoded as theirs", "PERDURE_PAYLOAD_CODEC"),
    "nothing": ({}, "encoded as nothing", "PERDURE_PAYLOAD_CODEC"),
    "a key": (
        {"encoding": b"binary/encrypted", "encryption-key-id": b"k1"},
        "encrypted with the key k1", "PERDURE_ENCRYPTION_KEY",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("metadata", "said", "cure"), UNKNOWN.values(), ids=UNKNOWN)
async def test_what_is_missing_is_named(metadata: Any, said: str, cure: str) -> None:
    with pytest.raises(StoreError, match=said) as caught:
        await data_converter(None).decode([Payload(metadata=metadata, data=b"x")], [str])
    assert cure in caught.value.cure
