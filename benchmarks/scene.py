"""What both sides play: the same instructions, replies and tool results, and one ledger of calls.

A model asks for one tool call in each of `turns` turns and then answers in text; nothing takes any
time. Everything here is a pure function of the turn, but for `book`, which each side calls once
per model and tool call, so that the two ledgers can be compared line by line.
"""

import os
from pathlib import Path
from typing import Literal

LEDGER_VARIABLE = "BENCHMARK_LEDGER"
TOOL = "bench.read"
ANSWER = "All pages are read."

INSTRUCTION_BYTES = 500
RESULT_BYTES = 1_000

CallKind = Literal["model", "tool"]


def padded(text: str, size: int) -> str:
    """`text` filled up with plain words to exactly `size` ASCII characters."""
    words = " every page is read from its first line to its last one"
    return (text + words * (size // len(words) + 1))[:size]


INSTRUCTIONS = padded("Read the pages of the report one after the other.", INSTRUCTION_BYTES)


def asks_for_tool(turn: int, *, turns: int) -> bool:
    """Whether the model asks for a tool in this turn (from 1), or answers."""
    return turn <= turns


def page(turn: int) -> str:
    """What the tool returns in a turn; no two are equal."""
    return padded(f"Page {turn:06d}:", RESULT_BYTES)


def book(run: str, kind: CallKind, turn: int) -> None:
    """Add a call to the run's ledger, a file in the folder that the worker was told."""
    folder = os.environ.get(LEDGER_VARIABLE)
    if folder is None:
        return
    with Path(folder, f"{run}.txt").open("a", encoding="utf-8") as file:
        file.write(f"{kind} {turn}\n")


def booked(folder: Path, run: str) -> tuple[str, ...]:
    """The ledger of a run, in the order in which the calls began."""
    return tuple((folder / f"{run}.txt").read_text(encoding="utf-8").splitlines())
