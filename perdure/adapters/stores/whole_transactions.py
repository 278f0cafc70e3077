"""Whole transactions of SQLite in one trip to a thread, by Python's own driver.

Through an asynchronous connection each statement crosses to a thread and back, and each transaction
makes and ends such a connection: that costs more processor time than all that SQLite does. What a
step does on every turn of a loop is therefore handed over whole.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, Engine

R = TypeVar("R")
# Writers take turns, so these are one writer and three readers.
THREADS = 4


class WholeTransactions:
    """Runs functions of a connection, each in a transaction and a thread.

    Args:
        engine: of a synchronous driver, with a connection for each thread.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="perdure-sqlite")

    async def run(self, engine: Engine, work: Callable[[Connection], R]) -> R:
        """The outcome of `work`; whoever is cancelled meanwhile leaves when it is done.

        Args:
            engine: ours, or one that was made of it with other options.
            work: what is committed when it returns, and rolled back when it raises.
        """
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._threads, partial(_transacted, engine, work))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            # The writers' turn passes on only when this one has ended.
            while not done.done():
                try:
                    await asyncio.wait({done})
                except asyncio.CancelledError:
                    continue
            raise

    async def close(self) -> None:
        """Close all connections, and end the threads."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._threads.shutdown()
        self.engine.dispose()


def _transacted(engine: Engine, work: Callable[[Connection], R]) -> R:
    with engine.begin() as connection:
        return work(connection)
