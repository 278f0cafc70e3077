"""SIGTERM and SIGINT as an event, for as long as the block lasts."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager

ENDING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def signals_set() -> Generator[asyncio.Event]:
    """The event is set by the first signal; outside the main thread no signal is caught."""
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    caught: list[signal.Signals] = []
    try:
        for number in ENDING:
            loop.add_signal_handler(number, told_to_stop.set)
            caught.append(number)
    except (RuntimeError, ValueError):
        pass
    try:
        yield told_to_stop
    finally:
        for number in caught:
            loop.remove_signal_handler(number)
