"""What a worker asks the server goes through its own connection, wherever the settings point."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, CountWorkflowsInput, Interceptor, OutboundInterceptor

from perdure.adapters.settings.variables import Settings
from perdure.composition import client_services
from perdure.composition.client_services import collecting_of, opening_of
from perdure.composition.parts import Parts, open_parts


class Asked(Exception):
    """Raised by the connection of the worker."""


class Asking(Interceptor):
    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Raising(next)


class _Raising(OutboundInterceptor):
    async def count_workflows(self, input: CountWorkflowsInput) -> Any:
        raise Asked

    def list_workflows(self, input: object) -> Any:
        raise Asked


@pytest.fixture
async def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Parts]:
    async def elsewhere(*_: object, **__: object) -> Client:
        raise AssertionError("it connects to the server of the settings")

    monkeypatch.setattr(client_services, "connect", elsewhere)
    settings = Settings.found({"home": tmp_path, "max_open_runs": 3}, files=False)
    async with open_parts(settings) as opened:
        yield opened


@pytest.fixture
async def client() -> Client:
    return await Client.connect(
        "127.0.0.1:1", namespace="theirs", lazy=True, interceptors=[Asking()]
    )


async def test_a_scheduled_start_counts_open_runs_where_the_worker_is(
    parts: Parts, client: Client
) -> None:
    opening = opening_of(parts, client, lacks=dict)
    with pytest.raises(Asked):
        await opening.starter.admission.claim_room(None, queue="loops")


async def test_a_scheduled_collection_reads_what_is_kept_where_the_worker_is(
    parts: Parts, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def reads(_: Parts, gateway: Any, *, dry_run: bool) -> None:
        assert not dry_run
        [one async for one in gateway.retained()]

    monkeypatch.setattr(client_services, "collect_garbage", reads)
    with pytest.raises(Asked):
        await collecting_of(parts, client)()
