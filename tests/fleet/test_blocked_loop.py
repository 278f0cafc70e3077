"""A blocked event loop is told in the log, with the line that blocks it."""

import asyncio
import threading
import time

from structlog.testing import capture_logs

from perdure.fleet.blocked_loop import telling_what_blocks


async def test_the_log_names_the_line_that_blocks_and_the_end_of_it() -> None:
    def blocks() -> None:
        deadline = time.monotonic() + 60
        while not logs and time.monotonic() < deadline:
            time.sleep(0.01)  # the line that is named

    with capture_logs() as logs, telling_what_blocks(blocked_s=0.05, look_s=0.01):
        blocks()
        while len(logs) < 2:
            await asyncio.sleep(0.01)
    warned, again = logs[:2]
    assert (warned["event"], warned["log_level"]) == ("event_loop_blocked", "warning")
    assert any("test_blocked_loop.py" in call and "in blocks" in call for call in warned["at"])
    assert again["event"] == "event_loop_answers_again"


async def test_an_event_loop_that_answers_is_not_told_of() -> None:
    with capture_logs() as logs, telling_what_blocks(blocked_s=30, look_s=0.001):
        for _ in range(20):
            await asyncio.sleep(0.002)
    assert logs == []


async def test_the_watch_ends_with_its_context() -> None:
    def watching() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if one.name == "perdure-watch"]

    before = watching()
    with telling_what_blocks(look_s=0.001):
        (watch,) = [one for one in watching() if one not in before]
    await asyncio.to_thread(watch.join, 30)
    assert not watch.is_alive()
