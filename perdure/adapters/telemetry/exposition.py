"""Serves the instruments of a meter provider to Prometheus, the same ones that OTLP gets."""

import threading
from collections.abc import Callable

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, start_http_server
from prometheus_client.exposition import generate_latest

from perdure.event_log import get_logger

CONTENT_TYPE = CONTENT_TYPE_LATEST
_log = get_logger(__name__)


class Exposition:
    """A metric reader that returns its metrics as text."""

    def __init__(self) -> None:
        # A registry of its own: the global one of the library would mix several providers.
        self.registry = CollectorRegistry()
        self.reader = PrometheusMetricReader(
            disable_target_info=True, scope_info_enabled=False, registry=self.registry
        )

    def text(self) -> bytes:
        """All metrics in Prometheus's text format."""
        return generate_latest(self.registry)

    def serve(self, address: str) -> tuple[str, Callable[[], None]] | None:
        """Answer `GET /metrics` at `HOST:PORT` in threads; returns the URL and a stop function.

        If the address cannot be used, log it and return None: a worker works without metrics.
        """
        host, _, port = address.rpartition(":")
        try:
            server, thread = start_http_server(
                int(port), addr=host.strip("[]"), registry=self.registry
            )
        except (OSError, UnicodeError) as error:  # the latter of `a..b`, which can be no host
            _log.warning(
                "metrics_off",
                address=address,
                error=getattr(error, "strerror", None) or str(error),
                cure="set PERDURE_METRICS_ADDRESS to a free one; each worker needs its own",
            )
            return None
        url = f"http://{host}:{server.server_port}/metrics"
        return url, lambda: _end(server.shutdown, server.server_close, thread)


def _end(shutdown: Callable[[], None], close: Callable[[], None], thread: threading.Thread) -> None:
    shutdown()
    close()
    thread.join()
