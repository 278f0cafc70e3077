"""Visibility queries for executions, on servers of every age."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio.client import Client, WorkflowExecutionAsyncIterator
from temporalio.service import RPCError

from perdure.domain.foundation.names import without_pauses

T = TypeVar("T")


async def page_of(
    client: Client, query: str, *, limit: int, cursor: bytes | None
) -> WorkflowExecutionAsyncIterator:
    """One page of executions, fetched; raises `RPCError`."""

    async def fetched(asked: str) -> WorkflowExecutionAsyncIterator:
        pages = client.list_workflows(asked, page_size=limit, next_page_token=cursor)
        await pages.fetch_next_page()
        return pages

    return await asked_of_any(query, fetched)


async def count_of(client: Client, query: str) -> int:
    """How many executions a query finds; raises `RPCError`."""
    return (await asked_of_any(query, client.count_workflows)).count


async def asked_of_any(query: str, ask: Callable[[str], Awaitable[T]]) -> T:
    """Ask with a query, once more in words of before pauses if the server is that old."""
    try:
        return await ask(query)
    except RPCError as error:
        older = without_pauses(query, error.message)
        if older is None:
            raise
        return await ask(older)
