"""`make soak`: two hundred runs in ten minutes on two hosts while everything fails, and the books.

Beside them go schedules, an experiment, people who steer, erasures and collections.

make soak ARGS="--runs 200 --minutes 10 --seed 1"
"""

import argparse
import asyncio
import logging
import signal
import sys
import tempfile
from pathlib import Path

import structlog
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from tests.soak.faults import timetable
from tests.soak.soak import report, soaking


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how many runs (default: 200)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="decides the faults (default: 1)")
    parser.add_argument("--plan", action="store_true", help="only print when which fault comes")
    parser.add_argument("--keep", type=Path, help="an empty folder to keep logs and ledgers in")
    return parser.parse_args()


async def _main() -> int:
    asked = _asked()
    _quiet()
    seconds = asked.minutes * 60
    if asked.plan:
        for strike in timetable(asked.seed, seconds=seconds):
            print(
                f"{strike.at:6.0f} s  {strike.fault}"
                + (f" for {strike.lasts:.0f} s" if strike.lasts else "")
            )
        return 0
    ours = asyncio.current_task()
    if ours is not None:  # told to end, it ends what it started
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ours.cancel)
    with tempfile.TemporaryDirectory(prefix="perdure-soak-") as folder:
        kept = asked.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        soak = soaking(kept, runs=asked.runs, seconds=seconds, seed=asked.seed, tell=_tell)
        async with soak as going:
            books, balance = await going.go()
            _tell("\n".join(report(going, books, balance)))
    return 1 if books.wrong else 0


def _quiet() -> None:
    """Say nothing of services that are away, which is what a soak is about."""
    levels = TelemetryFilter(core_level="ERROR", other_level="ERROR")
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter=levels))))
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(asyncio.run(_main()))
