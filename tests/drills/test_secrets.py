"""A provider that repeats credentials in its errors: no log, row, record or span tells them."""

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from ground import Ground, ground
from invariants import executions
from provider import Play
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.result import RunResult
from tests.adapters.telemetry.collector import collector

BY_VALUE = "zanzibar-value-of-the-key-3"  # configured; of no known shape
URL = "zanzibar-in-a-url-4"
HEADER = "zanzibar-in-a-header-5"
SHAPE = "sk-ant-api03-zanzibarAbCdEfGhIjKl"
SAID = (
    f"no route for key {BY_VALUE} to https://tenant:{URL}@gateway.internal/v1 "
    f"(Authorization: Bearer {HEADER}; x-api-key: {SHAPE})"
)
SECRETS = [text.encode() for text in (BY_VALUE, URL, HEADER, SHAPE)]
PLAYS = {
    "refused": [Play(status=400, error="invalid_request_error", message=SAID)],
    "retried, then refused": [
        Play(status=500, message=SAID),
        Play(end="error_event", error="overloaded_error", message=SAID),
        Play(status=401, error="authentication_error", message=SAID),
    ],
    "headers": [
        Play(status=400, error=f"error for {BY_VALUE}", headers={"request-id": BY_VALUE}),
    ],
}


@pytest.fixture
async def leaking(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Ground]:
    """A ground whose worker was configured with a key of no known shape."""
    address = server.client.service_client.config.target_host
    async with ground(tmp_path, address, api_key=BY_VALUE) as made:
        yield made


def found_in(stored: bytes) -> list[bytes]:
    return [secret for secret in SECRETS if secret in stored]


async def told_everywhere(drill: Ground, run: str, result: RunResult) -> dict[str, bytes]:
    """All that an installation and its server keep of a run, by place."""
    site = drill.site
    histories = await executions(site, run)
    described = await site.handle(run).describe()
    kept = {
        str(path.relative_to(site.home)): path.read_bytes()
        for path in site.home.rglob("*")
        if path.is_file()
    }
    return kept | {
        "history": b"".join(event.SerializeToString() for one in histories for event in one.events),
        "history export": await site.gateway.history_export(run),
        "description": described.raw_description.SerializeToString(),
        "result": result.model_dump_json().encode(),
        "status": (await site.status(run)).model_dump_json().encode(),
        "records": json.dumps(
            [r.model_dump(mode="json") for r in await site.records(run)]
        ).encode(),
    }


@pytest.mark.parametrize("plays", PLAYS.values(), ids=PLAYS)
async def test_what_a_failing_provider_repeats_is_told_nowhere(
    leaking: Ground, plays: list[Play]
) -> None:
    leaking.provider.plays = [plays]
    with ExitStack() as stack:
        collected = stack.enter_context(collector())
        environment = {
            **leaking.environment(),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collected.url,
            "PERDURE_LOG_LEVEL": "debug",
        }
        async with leaking.site.worker_process(**environment) as process:
            run = await leaking.start()
            result = await leaking.site.gateway.result(run)
            assert (result.outcome, result.reason) == ("failed", "model_error")
            assert result.error and "[redacted]" in result.error
            await process.terminate()
        await eventually(lambda: bool(collected.traces))
        spans = b"".join(message.SerializeToString() for message in collected.traces)
    kept = await told_everywhere(leaking, run, result)
    assert {"worker.log", "history", "perdure.sqlite"} <= set(kept)
    leaks = {place: found for place, content in kept.items() if (found := found_in(content))}
    assert leaks == {}
    assert b"call_model" in spans and found_in(spans) == []
