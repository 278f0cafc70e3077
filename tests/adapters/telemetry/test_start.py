"""Telemetry as a process gets it: silent without variables, OTLP with them, never in the way."""

import os
import subprocess
import sys
import time

import pytest
import structlog
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from perdure.adapters.telemetry import Telemetry, start_telemetry
from perdure.adapters.telemetry.otlp import resource_of, start_with
from perdure.domain.run.metrics import COST, DECISIONS, TOKENS
from tests.adapters.telemetry.collector import collector, eventually

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
def test_with_an_endpoint_traces_and_metrics_arrive(address: str) -> None:
    with collector() as collected:
        process = subprocess.Popen(
            [*PROGRAM, address],
            env=environment(**{ENDPOINT: collected.url}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            workflow_side = eventually(lambda: DECISIONS.name in collected.metric_names())
            _, said = process.communicate("\n", timeout=60)
        finally:
            process.kill()
        assert workflow_side, collected.metric_names()
        assert said == ""
        assert {"StartWorkflow:TinyTraced", "RunActivity:call_tool"} <= collected.span_names()
        assert {TOKENS.name, COST.name} <= collected.metric_names()
        assert any(name.startswith("temporal_") for name in collected.metric_names())
        assert collected.services() == {"tiny-service"}


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
