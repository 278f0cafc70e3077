"""Traces and metrics with OpenTelemetry: one trace from the start of a run to its tool calls."""

from perdure.adapters.telemetry.process_telemetry import Telemetry
from perdure.adapters.telemetry.start import start_telemetry

__all__ = ["Telemetry", "start_telemetry"]
