"""Clocks of other hosts beside that of this one: how far they are apart, and when that is too far.

A collection compares the time of its host with times that the store and the server wrote. One whose
clock is far ahead would take what is new for old.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from perdure.adapters.stores.clock import utc_now
from perdure.adapters.stores.database import Database
from perdure.adapters.stores.maintenance import time_of
from perdure.domain.foundation.errors import NotAllowed
from perdure.gateway.clock_difference import ahead
from perdure.interfaces.formatting import duration
from perdure.interfaces.gateways import RunGateway

STORE, SERVER = "the database", "the Temporal server"
CURE = "Let NTP (chrony, systemd-timesyncd) set the clock of the host that is wrong."
# A quarter of the hour for which a new blob is safe from a collection.
COLLECTING_APART_S = 900.0


async def store_ahead(database: Database) -> float | None:
    """The seconds by which the clock of the database is ahead; None for SQLite, which has none."""
    if database.dialect_name == "sqlite":
        return None
    began = utc_now()
    return ahead(began, await time_of(database), utc_now())


async def as_dated(moment: datetime, database: Database) -> datetime:
    """A moment of this host by the clock that dates blobs."""
    return moment + timedelta(seconds=await store_ahead(database) or 0.0)


def named(name: str, seconds: float | None) -> Mapping[str, float]:
    """A difference under its name; empty if it is not known."""
    return {} if seconds is None else {name: seconds}


def differences(apart: Mapping[str, float], *, above_s: float) -> list[str]:
    """Those clocks that differ by more, in words."""
    return [
        f"{name} is {duration(abs(seconds))} {'ahead of' if seconds > 0 else 'behind'} this host"
        for name, seconds in apart.items()
        if abs(seconds) > above_s
    ]


async def refuse_a_wrong_clock(database: Database, gateway: RunGateway) -> None:
    """Refuse to collect with a clock that is far from those of the database and of the server.

    A server without standalone activities tells no time; then the database decides alone.

    Raises:
        NotAllowed: a clock is more than `COLLECTING_APART_S` away; nothing was deleted.
        ServiceUnavailable: the server does not answer.
        StoreAway: the database does not answer.
    """
    store, server = await store_ahead(database), await gateway.server_ahead()
    apart = {**named(STORE, store), **named(SERVER, server)}
    if wrong := differences(apart, above_s=COLLECTING_APART_S):
        raise NotAllowed(
            f"By the clocks, {' and '.join(wrong)}. A collection goes by the clock of its host, and"
            f" would take what is new for old; above {duration(COLLECTING_APART_S)} it deletes"
            " nothing.",
            cure=f"{CURE} Then collect again, or collect on another host.",
        )
