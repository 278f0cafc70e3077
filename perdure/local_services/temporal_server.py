"""Questions to a Temporal server: does it answer, is it prepared, does anything run."""

import asyncio
from datetime import timedelta

import structlog
from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfigProfile
from temporalio.service import RPCError

from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.domain.foundation.plain_text import cause_in_words
from perdure.local_services.search_attributes import register_search_attributes

_log = structlog.get_logger(__name__)

RETENTION = timedelta(days=30)
ANSWER_WITHIN_S = 5.0
RUNNING = "ExecutionStatus = 'Running'"
RUNNING_OURS = f"{RUNNING} AND PerdureKind IS NOT NULL"


async def connect(address: str, namespace: str) -> Client | None:
    """A client of a server that answers now, else None."""
    try:
        return await asyncio.wait_for(
            Client.connect(address, namespace=namespace), timeout=ANSWER_WITHIN_S
        )
    except (RuntimeError, TimeoutError, RPCError):
        return None


async def connect_named(profile: ClientConfigProfile) -> Client:
    """A client of the server that the user named.

    Raises:
        RuntimeUnavailable: it does not answer; the embedded one is never taken in its place.
    """
    try:
        return await asyncio.wait_for(
            Client.connect(**profile.to_client_connect_config()), timeout=ANSWER_WITHIN_S
        )
    except (RuntimeError, TimeoutError, RPCError) as error:
        _log.debug("temporal_unreachable", address=profile.address, error=str(error))
        silent = f"no answer within {ANSWER_WITHIN_S:.0f} s"
        late = isinstance(error, TimeoutError)
        why = silent if late else cause_in_words(error, otherwise="the connection failed")
        raise RuntimeUnavailable(
            f"The Temporal server at {profile.address} does not answer: {why}.",
            cure="Start it, correct TEMPORAL_ADDRESS or the profile, or unset both to use the "
            "embedded server.",
        ) from error


async def answers(client: Client) -> bool:
    """Whether the server behind the client serves requests."""
    try:
        return await client.service_client.check_health(timeout=timedelta(seconds=ANSWER_WITHIN_S))
    except RPCError:
        return False


async def prepare_embedded(client: Client) -> None:
    """Search attributes and retention; harmless to repeat."""
    await register_search_attributes(client)
    retention = Duration()
    retention.FromTimedelta(RETENTION)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(
            namespace=client.namespace,
            config=NamespaceConfig(workflow_execution_retention_ttl=retention),
        )
    )


async def count_open(client: Client, query: str = RUNNING) -> int | None:
    """How many runs are open; None when the server cannot tell now."""
    try:
        return (await client.count_workflows(query)).count
    except RPCError:
        return None
