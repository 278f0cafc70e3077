"""The procedure "Outage" of docs/outages.md at the doors: words, and nothing half started."""

from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from full_store import FullStore, full_store
from installation import Installation
from mcp import Client
from mcp_over_http import told
from rest import TASK, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.domain.foundation.errors import StoreAway
from perdure.domain.specs import RUN_SPEC
from perdure.interfaces.mcp.server import build_server
from tests.interfaces.mcp.conftest import door_over

LOOPS = "/api/v1/loops"
SCRIPT = {"replies": [{"text": "done"}], "exhausted": "repeat_last"}


@pytest.fixture
async def rest(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, SCRIPT) as site,
        site.worker(),
        served(site) as door,
    ):
        yield door


@pytest.fixture
def store() -> Generator[FullStore]:
    with full_store() as made:
        yield made


@contextmanager
def away(site: Installation, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """No store of this process answers, as when its server is stopped."""

    def nobody(*_given: object) -> None:
        raise StoreAway("The database cannot be reached.", cure="Start its server.")

    with monkeypatch.context() as patch:
        patch.setattr(site.parts.stores.database, "read", nobody)
        patch.setattr(site.parts.stores.database, "write", nobody)
        yield


def refusal(answer: object) -> tuple[int, str]:
    told: Mapping[str, object] = answer.json()  # type: ignore[attr-defined]
    assert told["detail"], told
    return answer.status_code, str(told["code"])  # type: ignore[attr-defined]


@pytest.mark.long
async def test_a_start_that_no_store_takes_starts_nothing_and_may_be_sent_again(
    rest: Rest, store: FullStore
) -> None:
    key = {"idempotency-key": "once"}
    # The server is shared: other tests may have left runs open.
    before = (await rest.client.get(f"{LOOPS}/active/count")).json()["count"]
    big = {**TASK, "goal": "look at " + "x" * 20_000}
    store.full = True
    for _ in range(2):
        answer = await rest.client.post(LOOPS, json=big, headers=key)
        assert refusal(answer) == (503, "store_away"), answer.text
        assert "is full" in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) > 0
    with pytest.raises(StoreAway):
        await rest.site.gateway.start(RUN_SPEC.validate_python(big))
    store.full = False
    assert (await rest.client.get(f"{LOOPS}/active/count")).json()["count"] == before
    answer = await rest.client.post(LOOPS, json=big, headers=key)
    assert answer.status_code == 201, answer.text
    assert (await rest.ended(answer.json()["id"]))["outcome"] == "accepted"
    again = await rest.client.post(LOOPS, json=big, headers=key)
    assert (again.status_code, again.json()["id"]) == (200, answer.json()["id"])


@pytest.mark.long
async def test_every_door_says_that_the_store_is_away(
    rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await rest.start(TASK)
    await rest.ended(run)
    with away(rest.site, monkeypatch):
        for method, path in (
            ("GET", LOOPS), ("POST", LOOPS), ("GET", f"{LOOPS}/{run}"),
            ("GET", f"{LOOPS}/{run}/result"), ("GET", f"{LOOPS}/{run}/events"),
            ("POST", f"{LOOPS}/{run}/pause"), ("GET", f"{LOOPS}/nonsense"),
        ):  # fmt: skip
            body = TASK if method == "POST" else None
            answer = await rest.client.request(method, path, json=body)
            assert refusal(answer) == (503, "store_away"), (path, answer.text)
            assert "Traceback" not in answer.text
        assert (await rest.client.get("/healthz")).status_code == 200, "the process is well"
        assert (await rest.client.get("/readyz")).status_code == 503
        async with Client(build_server(door_over(rest.site).mcp)) as client:
            for tool, arguments in (
                ("run_start", {"goal": "x"}), ("run_result", {"id": run}),
                ("loop_list", {"status": "paused"}),  # the server is shared: a full page is enough
                ("loop_status", {"id": run}), ("loop_control", {"id": run, "action": "pause"}),
            ):  # fmt: skip
                said = await told(client, tool, **arguments)
                assert "The database cannot be reached. Start its server." in str(said), tool
                assert "Traceback" not in str(said)
        with pytest.raises(StoreAway):
            await rest.site.gateway.result(run)
    assert (await rest.client.get(f"{LOOPS}/{run}")).status_code == 200
