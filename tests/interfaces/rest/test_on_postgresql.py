"""The REST door over PostgreSQL: the same life of a run, keys, tokens and definitions."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from postgresql import postgresql
from rest import ANSWERS, Rest, client_of, scripted, served
from temporalio.testing import WorkflowEnvironment

AGENT = {"kind": "agent", "goal": "say something", "learn": False}
LOOPS = "/api/v1/loops"
DEFINITION = {
    "name": "mine",
    "roles": [{"role": "writer", "prompt": "Write."}],
    "termination_condition": {"type": "iteration_bound", "iterations": 1},
}


@pytest.fixture
async def rest(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    """A door with one worker, over a PostgreSQL database."""
    address = server.client.service_client.config.target_host
    with postgresql() as url:
        async with (
            scripted(tmp_path / "home", address, ANSWERS, database_url=url) as site,
            site.worker(),
            served(site) as door,
        ):
            yield door


@pytest.mark.slow
async def test_a_run_lives_on_postgresql(rest: Rest) -> None:
    assert not list(rest.site.home.glob("*.sqlite"))
    headers = {"idempotency-key": "k"}
    answers = await asyncio.gather(
        *(rest.client.post(LOOPS, json=AGENT, headers=headers) for _ in range(3))
    )
    assert {answer.status_code for answer in answers} <= {200, 201}, answers[0].text
    (run,) = {answer.json()["id"] for answer in answers}
    other = await rest.client.post(LOOPS, json=AGENT | {"goal": "other"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")

    assert (await rest.ended(run))["output"] == "an answer"
    for name in ("costs", "transcript", "iterations", "iterations/1", "history", "metrics"):
        answer = await rest.client.get(f"{LOOPS}/{run}/{name}")
        assert answer.status_code == 200, (name, answer.text)
    assert (await rest.client.get(f"{LOOPS}/{run}/costs")).json()["total"]["attempts"] == 1
    assert 'outcome="accepted"} 1' in (await rest.client.get("/metrics")).text
    assert (await rest.client.post(f"{LOOPS}/{run}/pause")).status_code == 409

    made = await rest.client.post(
        f"{LOOPS}/definitions", json=DEFINITION, headers={"if-none-match": "*"}
    )
    assert made.status_code == 201, made.text
    page = (await rest.client.get(f"{LOOPS}/definitions?limit=1")).json()
    more = await rest.client.get(f"{LOOPS}/definitions?cursor={page['cursor']}")
    assert more.status_code == 200

    text = await rest.token("read")
    async with client_of(rest.url, {"authorization": f"Bearer {text}"}) as reader:
        assert (await reader.get(f"{LOOPS}/{run}")).status_code == 200
        assert (await reader.delete(f"{LOOPS}/{run}")).status_code == 403
        await rest.api.services.access.revoke_token(text.split("_")[1], at=datetime.now(UTC))
        assert (await reader.get(f"{LOOPS}/{run}")).status_code == 401

    assert (await rest.client.delete(f"{LOOPS}/{run}")).status_code == 204
    assert (await rest.client.get(f"{LOOPS}/{run}")).status_code == 404
