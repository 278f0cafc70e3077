"""What goes wrong in a soak, and when: a timetable that its seed alone decides."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

Fault = Literal[
    "kill the worker of host 1",
    "kill the worker of host 2",
    "kill the server",
    "cut host 1 from the store",
    "cut host 2 from the store",
    "cut host 1 from the server",
    "cut host 2 from the server",
    "stop the store",
    "refuse most model calls",
    "flood with signals",
    "stop a run",
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
KILLS = frozenset(fault for fault in FAULTS if "kill" in fault)
# What loses a worker's answers: its death, and a network that is away for longer than a heartbeat.
LOSSES = frozenset(fault for fault in FAULTS if fault.startswith(("kill", "cut", "stop the store")))
CUT_S = 30.0
STORE_AWAY_S = 15.0
REFUSING_S = 20.0
DEAD_S = (0.0, 8.0)
QUIET = 0.06  # of the time, at both ends: runs begin, and the last ones end, undisturbed


@dataclass(frozen=True)
class Strike:
    """One fault: when it begins, in seconds from the start, and how long it lasts."""

    at: float
    fault: Fault
    lasts: float


def timetable(seed: int, *, seconds: float, every: float = 12.0) -> list[Strike]:
    """The faults of a soak, in order; each kind comes before any kind comes again.

    Args:
        seed: the same one gives the same timetable.
        seconds: how long runs are started.
        every: seconds between two faults; those that last may overlap.
    """
    chance = random.Random(seed)
    begin, end = seconds * QUIET, seconds * (1 - QUIET)
    count = max(1, int((end - begin) / every))
    kinds: list[Fault] = []
    while len(kinds) < count:
        kinds += chance.sample(FAULTS, len(FAULTS))
    jitter = every / 3
    return [
        Strike(
            begin + number * every + chance.uniform(0, jitter), kind, _lasts(kind, chance, seconds)
        )
        for number, kind in enumerate(kinds[:count])
    ]


def _lasts(fault: Fault, chance: random.Random, seconds: float) -> float:
    # A short soak has short faults.
    share = min(1.0, seconds / 300)
    if fault.startswith("cut"):
        return CUT_S * share
    if fault == "stop the store":
        return STORE_AWAY_S * share
    if fault == "refuse most model calls":
        return REFUSING_S * share
    return chance.uniform(*DEAD_S) if fault in KILLS else 0.0


def losses(strikes: Sequence[Strike]) -> int:
    """How often answers of workers may have been lost; a dead server loses those of all."""
    return sum(
        2 if "server" in one.fault and "kill" in one.fault else 1
        for one in strikes
        if one.fault in LOSSES
    )
