"""Check of `doctor`: where traces and metrics of this host go, and whether a receiver is there."""

import asyncio
import socket
from urllib.parse import urlsplit

from perdure.adapters.settings.variables import Settings, inherited_environment
from perdure.adapters.telemetry.process_telemetry import Signals
from perdure.adapters.telemetry.start import SPOKEN_PROTOCOL, traces_url, wanted
from perdure.domain.foundation.plain_text import cause_in_words
from perdure.interfaces.services import Check

TELEMETRY = "telemetry"
ANSWERS_WITHIN_S = 3.0
PORTS = {"http": 80, "https": 443}


async def telemetry(settings: Settings) -> Check:
    """Whether telemetry can be sent as the settings and the standard variables ask."""
    signals = wanted(inherited_environment())
    if signals.unspoken is not None:
        return _warning(
            f"off: the protocol {signals.unspoken} is not spoken",
            cure=f"Set OTEL_EXPORTER_OTLP_PROTOCOL to {SPOKEN_PROTOCOL}, or unset it.",
        )
    if settings.trace_content == "on" and not signals.traces:
        return _warning(
            "PERDURE_TRACE_CONTENT is on, but no endpoint takes traces",
            cure="Set OTEL_EXPORTER_OTLP_ENDPOINT, for workers too.",
        )
    for url in filter(None, {_traces(signals), signals.metrics_url}):
        why = await _unreachable(url)
        if why is not None:
            return _warning(
                f"nobody takes it at {_place(url)}: {why}",
                cure="Start the collector, or correct OTEL_EXPORTER_OTLP_ENDPOINT.",
            )
    return Check(name=TELEMETRY, state="ok", found=_found(settings, signals))


def _found(settings: Settings, signals: Signals) -> str:
    parts = ["no traces" if not signals.traces else f"traces to {_place(_traces(signals) or '')}"]
    if signals.traces and settings.trace_content == "on":
        parts[0] += " with prompts and replies"
    if signals.metrics_url is not None:
        parts.append(f"metrics to {_place(signals.metrics_url)}")
    if settings.metrics_address is not None:
        parts.append(f"workers' metrics for Prometheus at {settings.metrics_address}")
    if signals.metrics_url is None and settings.metrics_address is None:
        parts.append("workers' metrics nowhere (PERDURE_METRICS_ADDRESS)")
    return ", ".join(parts)


def _traces(signals: Signals) -> str | None:
    return traces_url(inherited_environment()) if signals.traces else None


async def _unreachable(url: str) -> str | None:
    """Why no connection can be made; None if one can."""
    parsed = urlsplit(url)
    port = parsed.port or PORTS.get(parsed.scheme, 0)
    address = parsed.hostname or "", port
    try:
        reached = await asyncio.to_thread(socket.create_connection, address, ANSWERS_WITHIN_S)
    except (OSError, OverflowError) as error:
        return cause_in_words(error, otherwise="no answer in time")
    reached.close()
    return None


def _place(url: str) -> str:
    """Only the host and port of a URL, since the rest may hold a credential."""
    parsed = urlsplit(url)
    return f"{parsed.hostname}:{parsed.port or PORTS.get(parsed.scheme, '')}"


def _warning(found: str, *, cure: str) -> Check:
    return Check(name=TELEMETRY, state="warning", found=found, cure=cure)
