"""Providers and receivers of notices that repeat credentials: no log, row or span tells them."""

import base64
import json
import sys
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ground import Ground, ground
from invariants import executions
from provider import Play
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.run.messages import Answer
from perdure.domain.run.result import RunResult
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
    "headers": [Play(status=400, error=f"error for {BY_VALUE}", headers={"request-id": BY_VALUE})],
}


@pytest.fixture
async def leaking(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Ground]:
    """A ground whose worker was configured with a key of no known shape."""
    address = server.client.service_client.config.target_host
    # Whoever starts a run says that there is a channel.
    async with ground(tmp_path, address, api_key=BY_VALUE, notify_command="true") as made:
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


@pytest.mark.long
@pytest.mark.parametrize(
    "plays",
    [
        pytest.param(plays, id=name, marks=[pytest.mark.slow] if "retried" in name else [])
        for name, plays in PLAYS.items()
    ],
)
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


ASKED = ("human.ask", {"question": "Tea or coffee?", "choices": ["tea", "coffee"]})
REPEATED = ("human.ask", {"question": f"May I use {SAID}?", "choices": ["yes", "no"]})
WEBHOOK_SECRET = "zanzibar-in-the-webhook-6"
SIGNING = f"whsec_{base64.b64encode(b'zanzibar-that-signs-webhooks').decode()}"
# Answers with what it was told, as a receiver or a script may that shows its input on failure.
ECHO = "import sys; sys.stderr.write(sys.argv[1] + sys.stdin.read()); sys.exit(3)"


@contextmanager
def receiver(status: int) -> Generator[tuple[str, list[bytes]]]:
    """A webhook that repeats credentials in its answers; its address, and all that came."""
    came: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told = "\n".join(f"{name}: {value}" for name, value in self.headers.items())
            body = self.rfile.read(int(self.headers["content-length"]))
            came.append(told.encode() + b"\n" + body)
            self.send_response(status, SAID)
            self.send_header("content-length", str(len(SAID)))
            self.end_headers()
            self.wfile.write(SAID.encode())

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/{WEBHOOK_SECRET}", came
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "question"),
    [
        pytest.param(400, ASKED, id="refused"),
        pytest.param(503, ASKED, id="away", marks=pytest.mark.slow),
        pytest.param(200, REPEATED, id="a question that repeats them", marks=pytest.mark.slow),
    ],
)
async def test_notices_tell_no_credentials(
    leaking: Ground, status: int, question: tuple[str, dict[str, object]]
) -> None:
    """Neither what goes out, nor what a receiver or a command says when it does not take it."""
    leaking.provider.plays = [Play(calls=[question]), Play(text="done")]
    with receiver(status) as (url, came):
        environment = {
            **leaking.environment(),
            "PERDURE_NOTIFY_WEBHOOK": url,
            "PERDURE_NOTIFY_COMMAND": json.dumps([sys.executable, "-c", ECHO, SAID]),
            "PERDURE_NOTIFY_SECRET": "env:OUR_SIGNING_SECRET",
            "OUR_SIGNING_SECRET": SIGNING,
            "PERDURE_LOG_LEVEL": "debug",
        }
        async with leaking.site.worker_process(**environment) as process:
            run = await leaking.start()
            await eventually(lambda: bool(came))
            gates = (await leaking.site.status(run)).gates
            await leaking.verb(run, Answer(gate=gates[0].id, choice=gates[0].choices[0], by="ann"))
            result = await leaking.site.gateway.result(run)
            assert result.outcome == "accepted"
            await process.terminate()
    assert all(b"webhook-signature" in notice for notice in came)
    assert [found for notice in came if (found := found_in(notice))] == []
    if question is REPEATED:
        return  # what a model asks is content, and stays as it is where the run keeps it
    secrets = [*SECRETS, WEBHOOK_SECRET.encode(), SIGNING.encode(), SIGNING[6:30].encode()]
    kept = await told_everywhere(leaking, run, result)
    assert {"worker.log", "history"} <= set(kept)
    leaks = {
        place: found
        for place, content in kept.items()
        if (found := [secret for secret in secrets if secret in content])
    }
    assert leaks == {}
