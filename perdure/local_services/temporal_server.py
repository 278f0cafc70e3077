"""Connects to a Temporal server, prepares its namespace, and counts open runs."""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from shlex import quote

import structlog
from google.protobuf.duration_pb2 import Duration
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import UpdateNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.adapters.settings.variables import Settings
from perdure.adapters.temporal.connection import connected
from perdure.domain.foundation.errors import RuntimeUnavailable, ServiceUnavailable
from perdure.domain.foundation.names import (
    OPEN_EXECUTION,
    SEARCH_ATTRIBUTES,
    attributes_command,
    retyping_commands,
    without_pauses,
)
from perdure.domain.foundation.plain_text import said_in_words

_log = structlog.get_logger(__name__)
_TYPES: dict[str, IndexedValueType.ValueType] = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
    "Double": IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
}
# The server's words when a namespace has as many attributes of a type as its database holds.
_NO_ROOM = "cannot have more than"
_MAY_NOT_LOOK = frozenset({RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED})
RETENTION = timedelta(days=30)
ANSWER_WITHIN_S = 5.0
# On a server that others use too.
OPEN_OURS = f"{OPEN_EXECUTION} AND PerdureKind IS NOT NULL"


async def register_search_attributes(client: Client) -> None:
    """Make sure that the namespace has Perdure's search attributes with the right types.

    If the account may not list them, nothing is done: the first start of a run will fail if one is
    missing.

    Raises:
        RuntimeUnavailable: one is missing and cannot be added, or has another type.
    """
    wanted = {name: _TYPES[kind] for name, kind in SEARCH_ATTRIBUTES.items()}
    try:
        present = await search_attributes(client)
    except RPCError as error:
        if error.status not in _MAY_NOT_LOOK:
            raise _unreadable(client, error) from error
        _log.warning("search_attributes_not_shown", why=error.message)
        return
    # Nothing is added to a namespace that cannot be used as it stands.
    _require_fit(client, wrongly_typed(present))
    missing = {name: kind for name, kind in wanted.items() if name not in present}
    if missing:
        await _add(client, missing)
        _require_fit(client, wrongly_typed(await search_attributes(client)))


def wrongly_typed(present: Mapping[str, IndexedValueType.ValueType]) -> dict[str, str]:
    """Those of Perdure's names that have another type, each with what it should be and is."""
    return {
        name: f"{name} should be {kind} and is {_word(present[name])}"
        for name, kind in SEARCH_ATTRIBUTES.items()
        if name in present and present[name] != _TYPES[kind]
    }


def cure_of_types(namespace: str, wrong: Iterable[str]) -> str:
    """What makes a namespace fit whose attributes of our names have other types."""
    return (
        f"If nobody else uses them there: `{retyping_commands(namespace, wrong)}`; or name another "
        "namespace (TEMPORAL_NAMESPACE)."
    )


def _require_fit(client: Client, wrong: Mapping[str, str]) -> None:
    if wrong:
        told = "; ".join(wrong.values())
        raise RuntimeUnavailable(
            f"Namespace {client.namespace!r} has unfit search attributes: {told}.",
            cure=cure_of_types(client.namespace, wrong),
        )


def _unreadable(client: Client, error: RPCError) -> RuntimeUnavailable:
    why = said_in_words(error.message or error.status.name, otherwise="it failed inside")
    return RuntimeUnavailable(
        f"The search attributes of namespace {client.namespace!r} cannot be read: {why}.",
        cure="Check that the namespace exists (TEMPORAL_NAMESPACE) and that the server is well.",
    )


async def search_attributes(client: Client) -> dict[str, IndexedValueType.ValueType]:
    """The search attributes of the namespace with their types; raises `RPCError`."""
    reply = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace)
    )
    return dict(reply.custom_attributes)


async def _add(client: Client, missing: dict[str, IndexedValueType.ValueType]) -> None:
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=missing)
    try:
        await client.operator_service.add_search_attributes(request)
    except RPCError as error:
        cure = f"Let somebody who may add them: `{attributes_command(client.namespace, missing)}`."
        if _NO_ROOM in error.message:
            cure = (
                "Remove attributes that nobody uses (`temporal operator search-attribute list "
                f"--namespace {quote(client.namespace)}` shows all), or give Perdure a namespace "
                "of its own (TEMPORAL_NAMESPACE)."
            )
        raise RuntimeUnavailable(
            f"The server refused the search attributes {', '.join(missing)}: {error.message}",
            cure=cure,
        ) from error


def _word(kind: IndexedValueType.ValueType) -> str:
    return IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_").capitalize()


async def connect(address: str, namespace: str) -> Client | None:
    """A client of a server; None if it does not answer now."""
    try:
        return await asyncio.wait_for(
            Client.connect(address, namespace=namespace), timeout=ANSWER_WITHIN_S
        )
    except (RuntimeError, TimeoutError, RPCError):
        return None


async def connect_named(settings: Settings) -> Client:
    """A client of the server that the user named.

    Raises:
        RuntimeUnavailable: it does not answer, or refuses this client. The embedded server is
            never used instead.
        InvalidInput: the address or a file of the connection cannot be used.
    """
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
        older = without_pauses(query, error.message)
        return None if older is None else await count_open(client, older)
