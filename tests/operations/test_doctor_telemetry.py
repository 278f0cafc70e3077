"""`doctor` on traces and metrics: where they go, and whether somebody takes them there."""

import asyncio
import socket

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.operations.doctor_telemetry import telemetry

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


async def told(**given: object) -> tuple[str, str]:
    check = await telemetry(Settings.load(**given))
    return check.state, f"{check.found} {check.cure}"


async def test_nothing_is_wrong_where_nothing_is_sent() -> None:
    assert await told() == ("ok", "no traces, workers' metrics nowhere (PERDURE_METRICS_ADDRESS) ")


async def test_it_says_where_workers_are_read() -> None:
    state, words = await told(metrics_address="127.0.0.1:9464")
    assert (state, "Prometheus at 127.0.0.1:9464" in words) == ("ok", True)


async def test_a_collector_that_takes_them_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setenv(ENDPOINT, f"http://name:secret@127.0.0.1:{port}")
        state, words = await told(trace_content="on")
    assert state == "ok", words
    assert f"traces to 127.0.0.1:{port} with prompts and replies" in words
    assert "secret" not in words


async def test_a_collector_that_is_away_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{port}")
    state, words = await told()
    assert state == "warning"
    assert f"nobody takes it at 127.0.0.1:{port}" in words


async def test_another_protocol_and_words_without_an_endpoint_are_warnings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (await told(trace_content="on"))[0] == "warning"
    monkeypatch.setenv(ENDPOINT, "http://c:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    state, words = await told()
    assert (state, "grpc is not spoken" in words) == ("warning", True)
