"""Asking services that may be away: again and again, as a person would."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from temporalio.service import RPCError

from perdure.domain.foundation.errors import PerdureError

T = TypeVar("T")
PATIENCE_S = 900.0


async def patiently(
    act: Callable[[], Awaitable[T]], *, final: tuple[type[Exception], ...] = ()
) -> T:
    """Do it until the services are there; what is `final` is an answer, and raised."""
    last: Exception | None = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    return await act()
                except final:
                    raise
                except (PerdureError, RPCError) as error:
                    last = error
                    await asyncio.sleep(1.0)
    except TimeoutError:
        told = f"not done within {PATIENCE_S:.0f} s; the last error on the way: {last!r}"
        raise AssertionError(told) from last
