"""Queries for open executions, also on servers that cannot pause one."""

import pytest
from temporalio.service import RPCError, RPCStatusCode

from perdure.domain.foundation.names import OPEN_EXECUTION
from perdure.gateway.execution_queries import asked_of_any

REFUSAL = "invalid query: invalid expression: invalid ExecutionStatus value 'Paused'"


class Server:
    """Answers each query with itself, unless it does not know the status that the query names."""

    def __init__(self, *, refusal: str) -> None:
        self.asked: list[str] = []
        self._refusal = refusal

    async def answer(self, query: str) -> str:
        self.asked.append(query)
        if "Paused" in query and self._refusal:
            raise RPCError(self._refusal, RPCStatusCode.INVALID_ARGUMENT, b"")
        return query


async def test_open_executions_are_running_or_paused() -> None:
    server = Server(refusal="")
    assert await asked_of_any(OPEN_EXECUTION, server.answer) == OPEN_EXECUTION
    assert server.asked == [OPEN_EXECUTION]


async def test_a_server_from_before_pauses_is_asked_for_running_ones() -> None:
    found = await asked_of_any(f"{OPEN_EXECUTION} AND A = 'b'", Server(refusal=REFUSAL).answer)
    assert found == "ExecutionStatus = 'Running' AND A = 'b'"


async def test_another_refusal_stands() -> None:
    server = Server(refusal="Namespace configuration for x has no search attribute A")
    with pytest.raises(RPCError, match="no search attribute A"):
        await asked_of_any(OPEN_EXECUTION, server.answer)
    assert len(server.asked) == 1
