"""Namespaces of their own on the shared server."""

import uuid
from datetime import timedelta

from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError
from waiting import eventually

from perdure.local_services.register_search_attributes import search_attributes


async def registered(client: Client) -> str:
    """A new namespace, without search attributes, once the server knows it everywhere."""
    name = f"own-{uuid.uuid4().hex[:8]}"
    asked = RegisterNamespaceRequest(namespace=name)
    asked.workflow_execution_retention_period.FromTimedelta(timedelta(days=1))
    await client.workflow_service.register_namespace(asked)
    there = await Client.connect(client.service_client.config.target_host, namespace=name)

    async def known() -> bool:
        try:
            await search_attributes(there)
        except RPCError:
            return False
        return True

    await eventually(known)
    return name
