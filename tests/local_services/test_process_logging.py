"""A worker process whose log is JSON says everything in JSON, from whomever it comes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog
from installation import Installation

from perdure.adapters.settings.variables import Settings
from perdure.cli_wiring import app_context

PROGRAM = """
import threading, warnings
from perdure.adapters.logging.process_logs import log_process, told_at_the_end
from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import InvalidInput
log_process(Settings.load())
warnings.warn("an old way", stacklevel=1)
thread = threading.Thread(target=lambda: 1 / 0, name="side")
thread.start()
thread.join()
told_at_the_end(InvalidInput("This is wrong.", cure="Do that."), as_json=True)
from opentelemetry.sdk.trace import TracerProvider
import structlog
with TracerProvider().get_tracer("t").start_as_current_span("s"):
    structlog.get_logger("x").info("inside")
raise RuntimeError("nobody catches me")
"""


@pytest.mark.long
def test_every_line_of_a_process_is_json(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "PERDURE_LOG_FORMAT": "json", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stderr.decode().splitlines()]
    by_event = {line["event"]: line for line in lines}
    assert any("an old way" in line["event"] for line in lines)
    threads = [line for line in lines if line.get("thread") == "side"]
    assert "ZeroDivisionError" in threads[0]["exception"]
    assert by_event["ended"]["cure"] == "Do that."
    assert "nobody catches me" in lines[-1]["exception"]
    inside = by_event["inside"]
    assert (len(inside["trace_id"]), len(inside["span_id"])) == (32, 16)
    assert "trace_id" not in by_event["ended"]


@pytest.mark.parametrize(
    ("log_format", "line"),
    [("auto", "[warning  ] odd"), ("json", '"event": "odd"'), ("console", "[warning  ] odd")],
)
def test_a_command_in_a_pipe_warns_in_words(
    settings_of: Callable[..., Settings],
    capsys: pytest.CaptureFixture[str],
    log_format: str,
    line: str,
) -> None:
    app_context(settings_of(log_format=log_format))
    structlog.get_logger("x").warning("odd")
    assert line in capsys.readouterr().err


@pytest.mark.long
def test_a_worker_that_a_setting_stops_says_so_as_json(tmp_path: Path) -> None:
    environment = {
        "HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PERDURE_LOG_FORMAT": "json",
        "PERDURE_MAX_CACHED_WORKFLOWS": "abc",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-P", "-m", "perdure.worker"],
        env=environment, cwd=tmp_path, capture_output=True, check=False,
    )  # fmt: skip
    (line,) = [json.loads(line) for line in done.stderr.decode().splitlines()]
    assert (done.returncode, line["event"]) == (2, "ended")
    assert "PERDURE_MAX_CACHED_WORKFLOWS" in line["why"]


@pytest.mark.long
async def test_a_worker_says_when_it_polls_what_and_its_core_speaks_json(
    bare: Installation,
) -> None:
    log = bare.home / "worker.log"
    more = {"PERDURE_LOG_FORMAT": "json", "PERDURE_LOG_LEVEL": "debug"}
    async with bare.worker_process(**more) as process:
        await process.terminate()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    (polls,) = [line for line in lines if line["event"] == "worker_polls"]
    assert polls["server"] == bare.address
    assert polls["namespace"] == "default"
    assert len(polls["queues"]) >= 3
    assert polls["default_model"]
    core = [line for line in lines if line["logger"] == "temporalio.core"]
    assert core and all("target" in line for line in core)
