"""How far the clock of this host is from another one."""

from collections.abc import Callable
from datetime import datetime

from temporalio.client import Client

from perdure.gateway.worker_probe import NothingToAskWith, server_time


def ahead(began: datetime, theirs: datetime, ended: datetime) -> float:
    """The least number of seconds by which another clock is ahead; negative if it is behind.

    Args:
        began: our time before the other clock was read.
        theirs: the time of the other clock.
        ended: our time after the other clock was read.
    """
    if theirs > ended:
        return (theirs - ended).total_seconds()
    return min(0.0, (theirs - began).total_seconds())


async def server_ahead(client: Client, queue: str, *, now: Callable[[], datetime]) -> float | None:
    """The seconds by which the server's clock is ahead of this host's; None if it tells no time.

    Args:
        queue: of the workers of this installation; the time of a probe that is sent there counts.
        now: the clock of this host.
    """
    began = now()
    try:
        theirs, ended = await server_time(client, queue, now=now)
    except NothingToAskWith:
        return None
    return ahead(began, theirs, ended)
