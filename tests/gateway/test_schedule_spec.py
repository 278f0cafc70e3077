"""The task of a schedule, as the server keeps it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import cast

from memory_blobs import MemoryBlobs
from temporalio.api.common.v1 import Payload
from temporalio.client import Client
from temporalio.converter import PayloadCodec

from perdure.adapters.temporal.data_converter import EXTERNAL_THRESHOLD_BYTES, data_converter
from perdure.domain.ports import BlobStore
from perdure.domain.schedules.plan import SchedulePlan, Times
from perdure.gateway.schedule_spec import task_payload


class Doubling(PayloadCodec):
    """A codec of somebody's own, whose payloads are twice as large."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [Payload(metadata={"encoding": b"double"}, data=2 * one.data) for one in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        raise NotImplementedError


async def test_its_task_is_measured_as_the_codec_leaves_it_and_never_a_blob() -> None:
    blobs = MemoryBlobs()
    converter = data_converter(cast(BlobStore, blobs), codec=Doubling())
    client = cast(Client, SimpleNamespace(data_converter=converter, namespace="default"))
    plan = SchedulePlan(
        name="news", kind="agent", task={"goal": "水" * 50_000}, times=Times(every_s=3_600)
    )
    payload = await task_payload(plan, client)
    assert payload.metadata["encoding"] == b"double"
    assert payload.ByteSize() > EXTERNAL_THRESHOLD_BYTES
    (usual,) = await converter.encode([plan.task])
    assert usual.ByteSize() < 1_000, "which elsewhere is kept as a blob"
