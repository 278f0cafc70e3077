"""`python -m benchmarks`: measure side by side, show the tables, and write them down."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table as Shown

from benchmarks.interruption import run
from benchmarks.measurement import IDS, QUICK, Plan, measure, write
from benchmarks.pairing import Disagreement
from benchmarks.report import Report, tables

WIDTH = 140
OPTIONS = {
    "--pairs": "interleaved pairs of B1, B4, B7 and B8",
    "--turns": "of B1",
    "--long-turns": "of B2",
    "--iterations": "of B3",
    "--replay-turns": "of B4",
    "--crowd-pairs": "rounds of B5",
    "--memory-loops": "of B6",
    "--calls": "of B8",
    "--tenant-loops": "of the other tenant in B9",
    "--watchers": "of P1",
    "--peer-turns": "of P2",
    "--peer-pairs": "rounds of P2",
}
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
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=IDS, help="may be given several times")
    parser.add_argument(
        "--quick", action="store_true", help="every figure, from fewer and shorter runs"
    )
    for option, of in OPTIONS.items():
        parser.add_argument(option, type=_positive, help=of)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep logs and stores in a new DIR"
    )
    given = vars(parser.parse_args(arguments))
    numbers = {option[2:].replace("-", "_"): None for option in OPTIONS}
    chosen = {name: given[name] for name in numbers if given[name] is not None}
    only = {"only": tuple(given["only"])} if given["only"] else {}
    plan = replace(QUICK if given["quick"] else Plan(), **chosen, **only, keep=given["keep"])
    return plan, given["out"]


def main(arguments: Sequence[str]) -> int:
    """Measure; 1 when the sides did not do the same work."""
    plan, folder = plan_of(arguments)
    # Into a file or a pipe the tables go at their full width.
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    try:
        report = run(measure(plan, on_run=console.print, on_part=lambda part: write(part, folder)))
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
