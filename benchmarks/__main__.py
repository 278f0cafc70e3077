"""`python -m benchmarks`: measure side by side, show the tables, and write them down."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table as Shown

from benchmarks.measurement import IDS, Plan, measure, write
from benchmarks.pairing import Disagreement
from benchmarks.report import Report, tables

WIDTH = 140
RESULTS = Path(__file__).parent / "results"


def show(report: Report, console: Console) -> None:
    """Print all tables."""
    for table in tables(report):
        shown = Shown(title=table.title, title_justify="left")
        for index, column in enumerate(table.columns):
            shown.add_column(column, justify="right" if index else "left")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)


def plan_of(arguments: Sequence[str]) -> tuple[Plan, Path]:
    """Read the command line; `argparse` ends the process when it is wrong."""
    usual = Plan()
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=IDS, help="may be given several times")
    parser.add_argument("--pairs", type=_positive, default=usual.pairs)
    parser.add_argument("--turns", type=_positive, default=usual.turns, help="of B1")
    parser.add_argument("--long-turns", type=_positive, default=usual.long_turns, help="of B2")
    parser.add_argument("--iterations", type=_positive, default=usual.iterations, help="of B3")
    parser.add_argument("--calls", type=_positive, default=usual.calls, help="of B8")
    parser.add_argument("--watchers", type=_positive, default=usual.watchers, help="of P1")
    parser.add_argument("--peer-turns", type=_positive, default=usual.peer_turns, help="of P2")
    parser.add_argument("--peer-pairs", type=_positive, default=usual.peer_pairs, help="of P2")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep logs and stores in a new DIR"
    )
    given = parser.parse_args(arguments)
    plan = Plan(
        only=tuple(given.only or IDS),
        pairs=given.pairs,
        turns=given.turns,
        long_turns=given.long_turns,
        iterations=given.iterations,
        calls=given.calls,
        watchers=given.watchers,
        peer_turns=given.peer_turns,
        peer_pairs=given.peer_pairs,
        keep=given.keep,
    )
    return plan, given.out


def main(arguments: Sequence[str]) -> int:
    """Measure; 1 when the sides did not do the same work."""
    plan, folder = plan_of(arguments)
    # Into a file or a pipe the tables go at their full width.
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    try:
        report = asyncio.run(measure(plan, on_run=console.print))
    except Disagreement as error:
        Console(stderr=True).print(str(error))
        return 1
    show(report, console)
    for path in write(report, folder):
        console.print(f"written: {path}")
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 1")
    return value


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
