"""Logs: one renderer for all loggers, JSON in a pipe, no secrets from local variables."""

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from perdure.adapters.logging.redacting import keep_secret
from perdure.adapters.logging.setup import CHATTY, Level, configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root = logging.getLogger()
    before = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in CHATTY}
    yield
    root.handlers[:], root.level = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def objects(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_a_pipe_gets_one_json_object_per_line() -> None:
    out = io.StringIO()
    configure_logging(stream=out)
    structlog.get_logger("perdure.worker").info("step_done", run="r-1", cost="0.02")
    logging.getLogger("temporalio.worker").warning("poll of %s failed", "queue")
    ours, theirs = objects(out)
    assert ours["event"] == "step_done"
    assert (ours["run"], ours["cost"]) == ("r-1", "0.02")
    assert (ours["level"], ours["logger"]) == ("info", "perdure.worker")
    assert theirs["event"] == "poll of queue failed"
    assert (theirs["level"], theirs["logger"]) == ("warning", "temporalio.worker")
    assert str(ours["at"]).endswith("Z") and str(theirs["at"]).endswith("Z")


def test_a_terminal_gets_lines_for_people() -> None:
    out = Terminal()
    configure_logging(stream=out)
    structlog.get_logger("perdure").info("step_done", run="r-1")
    line = out.getvalue()
    assert "step_done" in line and "r-1" in line
    assert not line.startswith("{")


@pytest.mark.parametrize(
    ("terminal", "asked", "is_json"),
    [(True, True, True), (False, False, False), (True, None, False), (False, None, True)],
    ids=["json on a terminal", "lines in a pipe", "auto terminal", "auto pipe"],
)
def test_the_format_can_be_told(terminal: bool, asked: bool | None, is_json: bool) -> None:
    out = Terminal() if terminal else io.StringIO()
    configure_logging(stream=out, json=asked)
    structlog.get_logger("perdure").info("hello")
    assert out.getvalue().startswith("{") is is_json


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warning", ["warning", "error"]),
        ("error", ["error"]),
    ],
    ids=str,
)
def test_levels_hold_for_both_kinds_of_logger(level: Level, shown: list[str]) -> None:
    out = io.StringIO()
    configure_logging(stream=out, level=level)
    for name in ("debug", "info", "warning", "error"):
        getattr(structlog.get_logger("ours"), name)("x")
        getattr(logging.getLogger("theirs"), name)("x")
    for logger in ("ours", "theirs"):
        assert [entry["level"] for entry in objects(out) if entry["logger"] == logger] == shown


def test_a_second_configuration_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    log = structlog.get_logger("perdure")
    configure_logging(stream=first)
    log.info("one")
    configure_logging(stream=second)
    log.info("two")
    assert [entry["event"] for entry in objects(first)] == ["one"]
    assert [entry["event"] for entry in objects(second)] == ["two"]


def test_bound_context_reaches_both_kinds_of_logger() -> None:
    out = io.StringIO()
    configure_logging(stream=out)
    with structlog.contextvars.bound_contextvars(run="r-1", iteration=2, step="call_model"):
        structlog.get_logger("ours").info("x")
        logging.getLogger("theirs").info("x")
    structlog.get_logger("ours").info("after")
    *inside, after = objects(out)
    assert [(e["run"], e["iteration"], e["step"]) for e in inside] == [("r-1", 2, "call_model")] * 2
    assert "run" not in after


def test_what_temporal_appends_as_text_becomes_fields() -> None:
    out = io.StringIO()
    configure_logging(stream=out)
    details = {"workflow_id": "r-1", "attempt": 3, "workflow_type": "AgentLoop"}
    step = {"activity_type": "call_tool", "workflow_id": "r-2"}
    logging.getLogger("temporalio.workflow").info(
        "rolled (%s)", {"temporal_workflow": details}, extra={"temporal_workflow": details}
    )
    logging.getLogger("temporalio.activity").info(
        "ran (%s)", step, extra={"temporal_activity": step}
    )
    rolled, ran = objects(out)
    assert (rolled["event"], rolled["run"], rolled["attempt"]) == ("rolled", "r-1", 3)
    assert (ran["event"], ran["run"], ran["step"]) == ("ran", "r-2", "call_tool")


@pytest.mark.parametrize("terminal", [False, True], ids=["json", "console"])
def test_a_traceback_shows_no_local_variable(terminal: bool) -> None:
    out = Terminal() if terminal else io.StringIO()
    configure_logging(stream=out)

    def fail(password: str) -> None:
        raise ValueError(f"bad length {len(password)}")

    secret = "-".join(["hunter", "two"])
    try:
        fail(secret)
    except ValueError:
        structlog.get_logger("ours").exception("ours_failed")
        logging.getLogger("theirs").exception("theirs failed")
    text = out.getvalue()
    assert text.count("ValueError: bad length 10") == 2
    assert "hunter-two" not in text


def test_request_lines_of_clients_are_shown_at_debug_only() -> None:
    out = io.StringIO()
    for level in ("info", "debug"):
        configure_logging(stream=out, level=level)
        logging.getLogger("httpx2").info("HTTP Request: POST /v1/messages")
    assert len(objects(out)) == 1


def test_the_default_is_standard_error_and_nothing_slow_is_imported() -> None:
    script = (
        "import sys, structlog\n"
        "from perdure.adapters.logging.setup import configure_logging\n"
        "configure_logging()\n"
        "structlog.get_logger('x').info('started', slow=sorted(\n"
        "    {'temporalio', 'opentelemetry', 'pydantic'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout == b""
    assert json.loads(done.stderr)["slow"] == []


SECRET = "zanzibar-of-the-log-7"


@pytest.mark.parametrize("json_lines", [True, False], ids=["json", "console"])
def test_no_line_tells_a_secret(json_lines: bool) -> None:
    keep_secret([SECRET])
    out = io.StringIO()
    configure_logging(stream=out, json=json_lines)
    log = structlog.get_logger("perdure")
    try:
        raise ValueError(f"https://me:{SECRET}@host and {SECRET}")
    except ValueError:
        log.exception("failed", url=f"https://u:pass-of-a-url@host/{SECRET}", fields={"a": SECRET})
    logging.getLogger("httpx").warning("sent %s", {"authorization": "Bearer abcdef123456"})
    told = out.getvalue()
    assert told.count("[redacted]") >= 5
    assert not [word for word in (SECRET, "pass-of-a-url", "abcdef123456") if word in told]
    if json_lines:
        assert len(objects(out)) == 2


def test_logged_text_cannot_steer_a_terminal() -> None:
    out = Terminal()
    configure_logging(stream=out)
    logger = structlog.get_logger("perdure.worker")
    try:
        raise ValueError("a\x1b[2Jb")
    except ValueError:
        logger.exception("said \x1b]0;title\x07", run="r\u202e1", parts={"name": "\x9b2J"})
    logging.getLogger("temporalio").warning("step \x1b[2J failed")
    told = out.getvalue()
    assert "said <U+001B>]0;title<U+0007>" in told
    assert "ValueError: a<U+001B>[2Jb" in told
    assert "step <U+001B>[2J failed" in told
    assert not [steers for steers in ("\x1b]", "\x1b[2J", "\u202e", "\x9b") if steers in told]


def test_what_every_worker_of_a_process_says_is_written_once() -> None:
    out = io.StringIO()
    configure_logging(stream=out)
    theirs, ours = logging.getLogger("temporalio.worker._worker"), logging.getLogger("perdure")
    for _ in range(7):
        theirs.info("Beginning worker shutdown, will wait %s", "10 s")
        theirs.warning("a poll failed")
        ours.info("step_done")
    theirs.info("Beginning worker shutdown, will wait %s", "20 s")
    told = [str(one["event"]) for one in objects(out)]
    assert told.count("Beginning worker shutdown, will wait 10 s") == 1
    assert told.count("Beginning worker shutdown, will wait 20 s") == 1
    assert (told.count("a poll failed"), told.count("step_done")) == (7, 7)


def test_what_workers_say_again_later_is_written_again() -> None:
    out = io.StringIO()
    configure_logging(stream=out)
    (handler,) = logging.getLogger().handlers[-1:]
    for at in (0.0, 59.0, 61.0):
        line = logging.LogRecord("temporalio.worker", logging.INFO, "", 0, "ends", None, None)
        line.created = at
        handler.handle(line)
    assert [one["event"] for one in objects(out)] == ["ends", "ends"]
