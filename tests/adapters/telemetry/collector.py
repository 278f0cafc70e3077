"""A collector on the loopback interface that keeps what it is sent."""

import gzip
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """Answers 200 to OTLP over HTTP; `url` is its endpoint."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.traces: list[ExportTraceServiceRequest] = []
        self.metrics: list[ExportMetricsServiceRequest] = []

    def take(self, path: str, body: bytes) -> None:
        match path:
            case "/v1/traces":
                self.traces.append(ExportTraceServiceRequest.FromString(body))
            case "/v1/metrics":
                self.metrics.append(ExportMetricsServiceRequest.FromString(body))
            case _:
                raise AssertionError(path)

    def services(self) -> set[str]:
        return {
            attribute.value.string_value
            for message in self.traces
            for item in message.resource_spans
            for attribute in item.resource.attributes
            if attribute.key == "service.name"
        }

    def span_names(self) -> set[str]:
        return {
            span.name
            for message in self.traces
            for item in message.resource_spans
            for scope in item.scope_spans
            for span in scope.spans
        }

    def metric_names(self) -> set[str]:
        return {
            metric.name
            for message in self.metrics
            for item in message.resource_metrics
            for scope in item.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def collector() -> Generator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            zipped = self.headers.get("content-encoding") == "gzip"
            kept.take(self.path, gzip.decompress(body) if zipped else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        kept = Collector(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()


def eventually(holds: Callable[[], bool], *, within_s: float = 60) -> bool:
    ends = time.monotonic() + within_s
    while not holds() and time.monotonic() < ends:
        time.sleep(0.05)
    return holds()
