"""Connects to a Temporal server, prepares its namespace, and sees open runs and schedules."""

import asyncio
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import RuntimeUnavailable, ServiceUnavailable
from perdure.domain.foundation.names import OPEN_EXECUTION, is_own_schedule, without_pauses

RETENTION = timedelta(days=30)
ANSWER_WITHIN_S = 5.0
# On a server that others use too.
OPEN_OURS = f"{OPEN_EXECUTION} AND PerdureKind IS NOT NULL"


async def connect(address: str, namespace: str) -> Client | None:
    """A client of a server; None if it does not answer now."""
    try:
        return await asyncio.wait_for(
            Client.connect(address, namespace=namespace), timeout=ANSWER_WITHIN_S
        )
    # The SDK has no error of its own for a connection that fails: it raises RuntimeError.
    except (RuntimeError, TimeoutError, RPCError):
        return None


async def connect_named(settings: Settings) -> Client:
    """A client of the server that the user named.

    Raises:
        RuntimeUnavailable: it does not answer, or refuses this client. The embedded server is
            never used instead.
        InvalidInput: the address or a file of the connection cannot be used.
    """
    # Imported on demand: hardly a command comes here.
    from perdure.adapters.temporal.client import connected

    profile = settings.temporal
    try:
        return await connected(
            profile,
            address=profile.address or "",
            reference=settings.temporal_key_reference,
            within_s=ANSWER_WITHIN_S,
        )
    except ServiceUnavailable as error:
        raise RuntimeUnavailable(
            error.message,
            cure=f"{error.cure} Without TEMPORAL_ADDRESS and a profile the embedded server is "
            "used.",
        ) from error


async def answers(client: Client) -> bool:
    """Whether the client's server serves requests."""
    try:
        return await client.service_client.check_health(timeout=timedelta(seconds=ANSWER_WITHIN_S))
    except RPCError:
        return False


async def prepare_embedded(client: Client) -> None:
    """Set search attributes and retention; may be repeated."""
    from perdure.local_services.register_search_attributes import register_search_attributes

    await register_search_attributes(client)
    retention = Duration()
    retention.FromTimedelta(RETENTION)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(
            namespace=client.namespace,
            config=NamespaceConfig(workflow_execution_retention_ttl=retention),
        )
    )


async def count_open(client: Client, query: str = OPEN_EXECUTION) -> int | None:
    """How many runs are open; None if the server cannot tell now."""
    try:
        return (await client.count_workflows(query)).count
    except RPCError as error:
        # Servers from before pauses refuse the whole query for a status that they do not know.
        older = without_pauses(query, error.message)
        return None if older is None else await count_open(client, older)


async def starts_ahead(client: Client, *, ours: bool) -> bool | None:
    """Whether a schedule is going to start something; None if the server cannot tell now.

    With `ours`, only schedules of Perdure count. One that is paused, or whose times are over,
    starts nothing.
    """
    try:
        async for one in await client.list_schedules():
            if ours and not is_own_schedule(one.id):
                continue
            # What a server does not list counts as going to start something.
            paused = one.schedule is not None and one.schedule.state.paused
            if not paused and (one.info is None or one.info.next_action_times):
                return True
    except RPCError:
        return None
    return False
