"""Telemetry as a process gets it: silent without variables, OTLP with them, never in the way."""

import os
import socket
import subprocess
import sys
import time

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from perdure.adapters.http_server import choose, is_free
from perdure.adapters.telemetry import Telemetry, start_telemetry
from perdure.adapters.telemetry.exposition import Exposition
from perdure.adapters.telemetry.outlets import resource_of, start_with
from perdure.domain.run.metrics import COST, DECISIONS, TOKENS, WORKER_METRICS
from tests.adapters.telemetry.collector import collector

PROGRAM = [sys.executable, "-P", "-m", "tests.adapters.telemetry.traced_run"]
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def environment(**variables: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    return {**inherited, "PYTHONPATH": os.getcwd(), **variables}


def test_without_an_endpoint_nothing_is_there_and_nothing_is_said(address: str) -> None:
    done = subprocess.run(
        [*PROGRAM, address], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["ran", "False", "0"]
    assert done.stderr == ""


@pytest.mark.long
def test_an_endpoint_and_prometheus_get_the_same_metrics(address: str) -> None:
    with collector() as collected:
        done = subprocess.run(
            [*PROGRAM, address, "127.0.0.1:0"],
            env=environment(**{ENDPOINT: collected.url}),
            capture_output=True,
            text=True,
            check=True,
            timeout=100,
        )
    assert done.stderr == ""
    read = {family.name for family in text_string_to_metric_families(done.stdout)}
    assert {"StartWorkflow:TinyTraced", "RunActivity:call_tool"} <= collected.span_names()
    assert {TOKENS.name, COST.name, DECISIONS.name} <= collected.metric_names()
    assert any(name.startswith("temporal_") for name in collected.metric_names())
    assert "temporal_activity_execution_latency_seconds_bucket{" in done.stdout
    assert "temporal_worker_task_slots_used{" in done.stdout
    ours = {metric.name for metric in WORKER_METRICS}
    # What the core counts while it ends was not there when the endpoint was read.
    assert read & ours == collected.metric_names() & ours >= {TOKENS.name, DECISIONS.name}
    assert collected.services() == {"tiny-service"}


def test_an_address_in_use_is_told_and_ends_nothing() -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    with taken, structlog.testing.capture_logs() as logs:
        end = Exposition().serve(f"127.0.0.1:{taken.getsockname()[1]}")
    assert end is None
    (line,) = logs
    assert (line["event"], line["log_level"]) == ("metrics_off", "warning")


def test_an_address_that_can_be_no_host_is_told_and_ends_nothing() -> None:
    with structlog.testing.capture_logs() as logs:
        assert Exposition().serve("a..b:9464") is None
    assert [line["event"] for line in logs] == ["metrics_off"]


def test_a_collector_that_hangs_does_not_hold_up_the_end() -> None:
    telemetry = Telemetry(closers=(lambda: time.sleep(30), lambda: time.sleep(30)))
    begun = time.monotonic()
    telemetry.close(within_s=0.2)
    assert time.monotonic() - begun < 25


def test_nothing_to_close() -> None:
    telemetry = start_telemetry(environment={})
    telemetry.close()
    assert telemetry == Telemetry()


def test_another_protocol_is_said_and_not_tried() -> None:
    with structlog.testing.capture_logs() as logs:
        telemetry = start_telemetry(
            environment={ENDPOINT: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        )
    assert telemetry == Telemetry()
    (line,) = logs
    assert (line["event"], line["protocol"]) == ("telemetry_off", "grpc")


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_METRIC_EXPORT_INTERVAL", "0"), ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9999")],
)
def test_a_setting_that_the_sdk_cannot_use_is_told_and_ends_nothing(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setenv(name, value)
    port = choose()
    with structlog.testing.capture_logs() as logs:
        telemetry = start_telemetry(
            environment={ENDPOINT: "http://127.0.0.1:1"}, metrics_address=f"127.0.0.1:{port}"
        )
    assert telemetry == Telemetry()
    (line,) = logs
    assert (line["event"], bool(line["found"])) == ("telemetry_off", True)
    assert is_free(port), "what was opened before is closed"


def test_a_provider_of_others_is_left_alone(no_provider: None) -> None:
    theirs = TracerProvider(shutdown_on_exit=False)
    trace.set_tracer_provider(theirs)
    with structlog.testing.capture_logs() as logs:
        telemetry = start_with(spans=SimpleSpanProcessor(InMemorySpanExporter()))
    assert [line["event"] for line in logs] == ["tracing_off"]
    assert [plugin.name() for plugin in telemetry.plugins] == ["perdure.step_telemetry"]
    assert trace.get_tracer_provider() is theirs


@pytest.mark.parametrize(
    ("variables", "service"),
    [
        ({}, "ours"),
        ({"OTEL_SERVICE_NAME": "theirs"}, "theirs"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs,region=x"}, "theirs"),
    ],
    ids=["ours", "by name", "by attributes"],
)
def test_who_sends(
    variables: dict[str, str], service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    attributes = resource_of("ours").attributes
    assert attributes["service.name"] == service
    assert attributes["service.version"]
