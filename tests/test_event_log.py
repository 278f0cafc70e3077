"""Events go where the program's logs go, and never to its standard output by themselves."""

import logging
from collections.abc import Generator

import pytest
import structlog

from perdure.event_log import get_logger


@pytest.fixture(autouse=True)
def _as_in_a_program_without_structlog() -> Generator[None]:
    configured = structlog.is_configured()
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    if configured:
        structlog.configure(**before)


def test_standard_logging_takes_events_with_their_fields(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    log = get_logger("perdure.tried")
    with caplog.at_level(logging.INFO):
        log.info("worker_polls", name="100 %s", queues=["a"])
        log.debug("too_little")
    assert [(one.name, one.levelname, one.getMessage()) for one in caplog.records] == [
        ("perdure.tried", "INFO", "worker_polls name='100 %s' queues=['a']")
    ]
    assert capsys.readouterr().out == ""


def test_levels_and_tracebacks_are_those_of_standard_logging(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = get_logger("perdure.tried")
    with caplog.at_level(logging.ERROR, logger="perdure"):
        log.warning("told_to_nobody")
        try:
            raise ValueError("wrong")
        except ValueError:
            log.exception("failed", run="r")
    (record,) = caplog.records
    assert record.getMessage() == "failed run='r'"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "wrong"


def test_fields_of_the_step_in_which_it_happens_are_there(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), structlog.contextvars.bound_contextvars(run="r"):
        get_logger("perdure.tried").info("done")
    assert caplog.messages == ["done run='r'"]


def test_a_program_that_sets_structlog_up_has_events_there_from_then_on(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    log = get_logger("perdure.tried")
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    with caplog.at_level(logging.INFO):
        log.info("mine", n=1)
    assert capsys.readouterr().out == '{"n": 1, "event": "mine"}\n'
    assert caplog.messages == []
