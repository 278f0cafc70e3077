"""Traces and metrics by OpenTelemetry: one trace from the start of a run to its tool calls."""

from perdure.adapters.telemetry.start import Telemetry, start_telemetry

__all__ = ["Telemetry", "start_telemetry"]
