"""Variables that libraries read by themselves: references in them are followed, secrets are not."""

import http.server
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from perdure.adapters.settings.library_secrets import (
    HEADERS,
    MODELS,
    OBJECT_STORES,
    followed,
    library_references,
)
from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.objects import Objects
from perdure.adapters.telemetry.exporters import metric_exporter, span_exporter
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.installation.blob_place import BlobPlace
from perdure.operations.doctor_secrets import references

NAMES = sorted(
    {name for group in (HEADERS, OBJECT_STORES, MODELS) for name in sum(group.values(), ())}
)


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ELSEWHERE", "the secret")


@pytest.mark.parametrize("name", NAMES)
def test_each_may_be_a_reference(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "env:ELSEWHERE")
    assert library_references() == {name: "env:ELSEWHERE"}
    assert followed([name]) == {name: "the secret"}
    found = references(Settings.load(home=tmp_path))
    assert (found.state, found.found) == ("ok", "1 references lead to a secret")


@pytest.mark.parametrize("name", NAMES)
def test_one_that_leads_nowhere_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "env:NOT_SET_ANYWHERE")
    with pytest.raises(InvalidInput, match=f"{name} refers to env:NOT_SET_ANYWHERE"):
        followed([name])
    assert references(Settings.load(home=tmp_path)).state == "failed"


def test_what_holds_no_reference_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "plain")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "plain too")
    assert followed(OBJECT_STORES["s3"]) == {}
    assert library_references() == {}


def test_beside_a_reference_the_others_are_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "plain")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "env:ELSEWHERE")
    assert followed(OBJECT_STORES["s3"]) == {
        "AWS_ACCESS_KEY_ID": "plain",
        "AWS_SECRET_ACCESS_KEY": "the secret",
    }


async def test_an_object_store_signs_with_the_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    with heard() as (url, asked):
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_REGION", "eu-north-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "env:ELSEWHERE")
        monkeypatch.setenv("ELSEWHERE", "the-access-key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "plain")
        await Objects(BlobPlace.parse("s3://bucket")).put("key", b"content")
    assert "Credential=the-access-key/" in asked[0]["authorization"]


@pytest.mark.parametrize(
    "reference", ["file:{0}/headers", "command:env LOOKS_LIKE=one cat {0}/headers"]
)
@pytest.mark.parametrize("place", ["own", "general"])
def test_headers_of_telemetry_are_those_behind_the_reference(
    place: str, reference: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "headers").write_text("authorization=Bearer%20abc,x-tenant=mine\n")
    name = HEADERS["TRACES"][0 if place == "own" else 1]
    monkeypatch.setenv(name, reference.format(tmp_path))
    with heard() as (url, asked):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        exporter = span_exporter()
        assert exporter is not None
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        provider.get_tracer("test").start_span("one").end()
        provider.shutdown()
    assert {"authorization": "Bearer abc", "x-tenant": "mine"}.items() <= asked[0].items()
    assert not any("looks_like" in header or ":" in header for header in asked[0])
    assert os.environ[name] == reference.format(tmp_path)


@pytest.mark.parametrize("make", [span_exporter, metric_exporter])
def test_headers_that_lead_nowhere_turn_a_signal_off(
    make: "type", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "file:/nowhere/at/all")
    with structlog.testing.capture_logs() as lines:
        assert make() is None
    assert lines[0]["event"] == "telemetry_off"
    assert "OTEL_EXPORTER_OTLP_HEADERS refers to file:/nowhere/at/all" in lines[0]["found"]


@contextmanager
def heard() -> Generator[tuple[str, list[dict[str, str]]]]:
    """A server that takes everything, and the headers of what it was asked."""
    asked: list[dict[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.do_PUT()

        def do_PUT(self) -> None:
            asked.append({name.lower(): value for name, value in self.headers.items()})
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(200)
            self.send_header("ETag", '"1"')
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
