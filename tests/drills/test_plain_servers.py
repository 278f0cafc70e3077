"""Servers that an operator made plain: without standalone activities, without search attributes.

A run starts wherever it can run; where it cannot, the error says what is missing and the command.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from installation import Installation, dev_server, installation
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from perdure.domain.foundation.errors import NoReadyWorker, RuntimeUnavailable
from perdure.domain.specs import RUN_SPEC
from perdure.gateway.gateway import Gateway
from perdure.gateway.types import QueueState
from perdure.operations.doctor import _attributes

WITHOUT_QUESTIONS = ("--dynamic-config-value", "activity.enableStandalone=false")
SPEC = {"kind": "agent", "goal": "say", "learn": False}
SCRIPT = {"replies": [{"text": "done"}], "exhausted": "repeat_last"}
Made = Callable[[WorkflowEnvironment], AbstractAsyncContextManager[Installation]]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """Makes an installation on a server."""

    def make(server: WorkflowEnvironment) -> AbstractAsyncContextManager[Installation]:
        return installation(tmp_path / "home", server.client.service_client.config.target_host)

    return make


@pytest.fixture
async def silent(made: Made) -> AsyncIterator[Installation]:
    """An installation on a server that puts no question to workers."""
    async with dev_server(*WITHOUT_QUESTIONS) as server, made(server) as site:
        yield site


@pytest.fixture
async def unprepared(made: Made) -> AsyncIterator[Installation]:
    """An installation on a server whose namespace has no search attributes."""
    async with dev_server(prepared=False) as server, made(server) as site:
        yield site


async def test_without_standalone_activities_runs_start_behind_pollers(
    silent: Installation,
) -> None:
    async with silent.worker():
        assert (await silent.run(SPEC, SCRIPT)).outcome == "accepted"
        states = await silent.gateway.readiness(RUN_SPEC.validate_python(SPEC))
    assert {state.unasked for state in states} == {True}
    assert all("cannot ask them" in state.found for state in states)


@pytest.mark.slow
async def test_without_standalone_activities_nobody_there_still_refuses(
    silent: Installation,
) -> None:
    with pytest.raises(NoReadyWorker) as caught:
        await silent.start(SPEC, SCRIPT)
    assert "Nobody works on 3 of the 3 queues" in caught.value.message
    assert "does not answer" not in str(caught.value)


async def test_a_start_adds_the_search_attributes(unprepared: Installation) -> None:
    run = await _start_with(unprepared, unprepared.gateway)
    async with unprepared.worker():
        assert (await unprepared.gateway.result(run)).outcome == "accepted"


async def test_a_worker_adds_them_when_it_starts(unprepared: Installation) -> None:
    async with unprepared.worker():
        page = await unprepared.gateway.list()
        assert (page.runs, page.note) == ((), "")


async def test_a_list_says_what_is_missing(unprepared: Installation) -> None:
    page = await unprepared.gateway.list()
    assert "lacks Perdure's search attributes" in page.note
    assert "temporal operator search-attribute create" in page.note
    assert "does not answer" not in page.note


async def test_doctor_says_what_is_missing(unprepared: Installation) -> None:
    check = await _attributes(unprepared.settings)
    assert (check.state, "PerdureKind" in check.found) == ("failed", True)
    assert "temporal operator search-attribute create" in check.cure
    async with unprepared.worker():
        assert (await _attributes(unprepared.settings)).state == "ok"


async def test_where_there_is_no_room_for_them_the_command_is_named(
    unprepared: Installation,
) -> None:
    await _fill(unprepared.client)
    with pytest.raises(RuntimeUnavailable) as caught:
        await _start_with(unprepared, unprepared.gateway)
    command = "temporal operator search-attribute list --namespace default"
    assert command in caught.value.cure
    with pytest.raises(RuntimeUnavailable) as told:
        async with unprepared.worker():
            pass
    assert command in told.value.cure


async def _start_with(site: Installation, gateway: Gateway) -> str:
    """Start where the worker is yet to come; the pollers are not what is looked at here."""
    spec = RUN_SPEC.validate_python({**SPEC, "models": {"executor": await site.script(SCRIPT)}})
    gateway._parts.starter.readiness.ask = _there  # type: ignore[method-assign]
    return await gateway.start(spec)


async def _there(state: QueueState) -> QueueState:
    return state.model_copy(update={"ready": True})


async def _fill(client: Client) -> None:
    """A SQL store has room for ten keywords in a namespace: take them all."""
    keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
    await client.operator_service.add_search_attributes(
        AddSearchAttributesRequest(
            namespace="default", search_attributes={f"Other{n}": keyword for n in range(10)}
        )
    )
