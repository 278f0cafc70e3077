"""Whether a namespace has Perdure's search attributes, and adds those that it lacks.

That they are there is asked by queries of runs, which every account may send. Only to add some is
the operator's service asked, which Temporal Cloud and many proxies refuse.
"""

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from shlex import quote

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.domain.foundation.names import SEARCH_ATTRIBUTES, retyping_commands
from perdure.domain.foundation.plain_text import said_in_words
from perdure.domain.foundation.temporal_cloud import adding_commands, full_name_hint

_TYPES: dict[str, IndexedValueType.ValueType] = {
    "Keyword": IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD,
    "Int": IndexedValueType.INDEXED_VALUE_TYPE_INT,
    "Double": IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE,
}
# The server's words when a namespace has as many attributes of a type as its database holds.
_NO_ROOM = "cannot have more than"
_MAY_NOT_ADD = frozenset(
    {RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED, RPCStatusCode.UNIMPLEMENTED}
)
# A condition that only an attribute of the type takes; the server does not tell apart numbers.
_FITTING = {"Keyword": "STARTS_WITH 'x'", "Int": "= 1", "Double": "= 1.5"}
# Refused for each number, in words that name its type.
_UNFIT = "= 'x'"
_OF_TYPE = re.compile(r"of type (\w+)|for (\w+) type search attribute|parse (datetime)")


@dataclass(frozen=True, slots=True)
class Standing:
    """What a namespace lacks: names that are missing, and why others are unfit."""

    missing: tuple[str, ...] = ()
    wrong: Mapping[str, str] = field(default_factory=dict[str, str])


async def standing(client: Client) -> Standing:
    """Which of Perdure's search attributes the namespace has; raises `RPCError`."""
    whole = " AND ".join(f"{name} {_FITTING[kind]}" for name, kind in SEARCH_ATTRIBUTES.items())
    # Where all is taken at once, only numbers are asked for one by one, for their types.
    fits = await _refusal(client, whole) is None
    told = {
        name: _told(client, name, fits=fits)
        for name, kind in SEARCH_ATTRIBUTES.items()
        if not fits or kind != "Keyword"
    }
    return _judged(dict(zip(told, await asyncio.gather(*told.values()), strict=True)))


async def _told(client: Client, name: str, *, fits: bool) -> str | None:
    """What the server says against an attribute; of a number that fits, its words name the type."""
    kind = SEARCH_ATTRIBUTES[name]
    refusal = None if fits else await _refusal(client, f"{name} {_FITTING[kind]}")
    if refusal is None and kind != "Keyword":
        return await _refusal(client, f"{name} {_UNFIT}")
    return refusal


async def _refusal(client: Client, query: str) -> str | None:
    """Why the server does not take a query; None if it does."""
    try:
        await client.count_workflows(query)
    except RPCError as error:
        # Any other refusal is about the account or the server, and says nothing of an attribute.
        if error.status != RPCStatusCode.INVALID_ARGUMENT:
            raise
        return error.message
    return None


def _judged(refusals: Mapping[str, str | None]) -> Standing:
    missing, wrong = list[str](), dict[str, str]()
    for name, refusal in refusals.items():
        if refusal is None:
            continue
        found = _OF_TYPE.search(refusal)
        if found is None:
            missing.append(name)
            continue
        word = next(part for part in found.groups() if part).capitalize()
        if word != SEARCH_ATTRIBUTES[name]:
            wrong[name] = _unfit(name, word)
    return Standing(tuple(missing), wrong)


def _unfit(name: str, found: str) -> str:
    return f"{name} should be {SEARCH_ATTRIBUTES[name]} and is {found}"


async def register_search_attributes(client: Client) -> None:
    """Make sure that the namespace has Perdure's search attributes with the right types.

    Raises:
        RuntimeUnavailable: the namespace is not there or not open to this account; or an attribute
            is missing and cannot be added, or has another type.
    """
    try:
        found = await standing(client)
        # Nothing is added to a namespace that cannot be used as it stands.
        _require_fit(client, found.wrong)
        if found.missing:
            await _add(client, found.missing)
            # The server takes a request silently where somebody else has just added another type.
            present = await search_attributes(client)
            _require_fit(client, _wrongly_typed(present))
    except RPCError as error:
        raise _unreadable(client, error) from error


async def search_attributes(client: Client) -> dict[str, IndexedValueType.ValueType]:
    """The namespace's search attributes, from the operator's service; raises `RPCError`."""
    reply = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=client.namespace), retry=True
    )
    return dict(reply.custom_attributes)


def _wrongly_typed(present: Mapping[str, IndexedValueType.ValueType]) -> dict[str, str]:
    return {
        name: _unfit(name, _word(present[name]))
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
    address = client.service_client.config.target_host
    server, namespace = f"The Temporal server at {address}", client.namespace
    hint = full_name_hint(namespace, address)
    why = said_in_words(error.message or error.status.name, otherwise="it failed inside")
    if error.status == RPCStatusCode.NOT_FOUND:
        return RuntimeUnavailable(
            f"{server} has no namespace {namespace!r}: {why}.",
            cure=f"Correct TEMPORAL_NAMESPACE, or create the namespace on the server.{hint}",
        )
    if error.status in _MAY_NOT_ADD:
        return RuntimeUnavailable(
            f"{server} does not let this account list runs of the namespace {namespace!r}: {why}.",
            cure="Give the account of TEMPORAL_API_KEY or of the client certificate a role there "
            f"that may write, or correct TEMPORAL_NAMESPACE.{hint}",
        )
    return RuntimeUnavailable(
        f"The search attributes of namespace {namespace!r} cannot be read: {why}.",
        cure="Check that the namespace exists (TEMPORAL_NAMESPACE) and that the server is well.",
    )


async def _add(client: Client, missing: Iterable[str]) -> None:
    kinds = {name: _TYPES[SEARCH_ATTRIBUTES[name]] for name in missing}
    request = AddSearchAttributesRequest(namespace=client.namespace, search_attributes=kinds)
    try:
        await client.operator_service.add_search_attributes(request, retry=True)
    except RPCError as error:
        cure = f"Let somebody who may add them: {adding_commands(client.namespace, kinds)}."
        if _NO_ROOM in error.message:
            cure = (
                "Remove attributes that nobody uses (`temporal operator search-attribute list "
                f"--namespace {quote(client.namespace)}` shows all), or give Perdure a namespace "
                "of its own (TEMPORAL_NAMESPACE)."
            )
        lacking = ", ".join(kinds)
        told = f"The server refused the search attributes {lacking}: {error.message}"
        if error.status in _MAY_NOT_ADD:
            told = (
                f"Namespace {client.namespace!r} lacks the search attributes {lacking}, and this "
                f"account may not add them: {error.message}"
            )
        raise RuntimeUnavailable(told, cure=cure) from error


def _word(kind: IndexedValueType.ValueType) -> str:
    return IndexedValueType.Name(kind).removeprefix("INDEXED_VALUE_TYPE_").capitalize()
