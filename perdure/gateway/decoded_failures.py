"""Failures and heartbeats as the server keeps them, opened where they are sealed."""

from typing import TypeVar

from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.client import Client
from temporalio.converter import DataConverter, WorkflowSerializationContext

from perdure.domain.foundation.errors import PerdureError

T = TypeVar("T")
UNREADABLE = (PerdureError, ValueError, KeyError, RuntimeError)


def converter_for(client: Client, run: str) -> DataConverter:
    """The client's converter for one run: what is sealed was sealed for it alone."""
    return client.data_converter.with_context(
        WorkflowSerializationContext(namespace=client.namespace, workflow_id=run)
    )


async def opened_failure(failure: Failure, converter: DataConverter) -> Failure:
    """A copy of a failure that says what it says; one that cannot be opened stays as it is."""
    copy = Failure()
    copy.CopyFrom(failure)
    link: Failure | None = copy
    while link is not None:
        if link.HasField("encoded_attributes"):
            said = await opened(link.encoded_attributes, dict[str, str], converter)
            link.message = (said or {}).get("message", link.message)
        link = link.cause if link.HasField("cause") else None
    return copy


async def opened(payload: Payload, kind: type[T], converter: DataConverter) -> T | None:
    """A value of so foreign an origin that it may be of another kind, or sealed for others."""
    try:
        (value,) = await converter.decode([payload], [kind])
    except UNREADABLE:
        return None
    return value
