"""Runs of one store in several namespaces: one of another namespace is at work there, not lost.

The server tells of a run only in the namespace that it is asked for. Who asks elsewhere learns that
there is none, and would take up again, and pay for, what is still at work.
"""

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.status import StoredRun
from perdure.gateway.temporal_gateway import TemporalGateway


async def elsewhere(server: TemporalGateway, row: StoredRun) -> str | None:
    """The namespace of an open run, if this process uses another one."""
    if row.ended_at is not None or row.namespace is None:
        return None
    here = (await server.client()).namespace
    return None if row.namespace == here else row.namespace


def in_namespace(client: Client, namespace: str) -> Client:
    """The same connection, for calls to another namespace."""
    config = client.config()
    config["namespace"] = namespace
    config["plugins"] = []  # they have configured this client already
    return Client(**config)


async def known_there(server: TemporalGateway, run: str, namespace: str) -> bool:
    """Whether another namespace of the same server still has a run, open or closed."""
    client = in_namespace(await server.client(), namespace)
    with server.translate_errors():
        try:
            await client.get_workflow_handle(run).describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return False  # the run is gone, or the whole namespace is
            raise
    return True


def told_elsewhere(run: str, namespace: str) -> str:
    """That a run is at work in another namespace, as a sentence."""
    return f"The run {run} works in the namespace {namespace}, and this process uses another one."


def other_namespace_error(run: str, namespace: str) -> NotAllowed:
    """The error for what only the namespace of a run can do."""
    return NotAllowed(
        told_elsewhere(run, namespace), cure=f"Set TEMPORAL_NAMESPACE={namespace} and ask again."
    )
