"""Which signals the standard variables ask for."""

import pytest

from perdure.adapters.telemetry.process_telemetry import Signals
from perdure.adapters.telemetry.start import wanted

ALL = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
METRICS = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
BOTH = Signals(traces=True, metrics_url="http://c:4318/v1/metrics")


@pytest.mark.parametrize(
    ("environment", "signals"),
    [
        ({}, Signals()),
        ({"OTEL_SERVICE_NAME": "x"}, Signals()),
        ({ALL: ""}, Signals()),
        ({ALL: "http://c:4318"}, BOTH),
        ({ALL: "http://c:4318/"}, BOTH),
        ({TRACES: "http://t/v1/traces"}, Signals(traces=True)),
        ({METRICS: "http://m/x"}, Signals(metrics_url="http://m/x")),
        ({ALL: "http://c:4318", METRICS: "http://m/x"}, Signals(traces=True, metrics_url="http://m/x")),
        ({ALL: "http://c:4318", "OTEL_METRICS_EXPORTER": "none"}, Signals(traces=True)),
        (
            {ALL: "http://c:4318", "OTEL_TRACES_EXPORTER": "none"},
            Signals(metrics_url="http://c:4318/v1/metrics"),
        ),
        ({ALL: "http://c:4318", "OTEL_TRACES_EXPORTER": "", "OTEL_METRICS_EXPORTER": " "}, BOTH),
        ({ALL: "http://c:4318", "OTEL_TRACES_EXPORTER": "console, otlp"}, BOTH),
        ({ALL: "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, Signals()),
        ({ALL: "http://c:4318", PROTOCOL: "http/protobuf"}, BOTH),
        ({ALL: "http://c:4317", PROTOCOL: "grpc"}, Signals(unspoken="grpc")),
        ({PROTOCOL: "grpc"}, Signals()),
    ],
    ids=[
        "nothing",
        "a name alone",
        "empty",
        "one endpoint for all",
        "trailing slash",
        "traces alone",
        "metrics alone",
        "metrics elsewhere",
        "no metrics",
        "no traces",
        "empty exporters",
        "several exporters",
        "disabled",
        "our protocol",
        "another protocol",
        "another protocol, no endpoint",
    ],
)  # fmt: skip
def test_wanted(environment: dict[str, str], signals: Signals) -> None:
    assert wanted(environment) == signals
