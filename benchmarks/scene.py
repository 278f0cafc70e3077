"""What all sides play: the same instructions, replies and tool results, and one ledger of calls.

A model asks for one tool call in each of `turns` turns and then answers in text; nothing takes any
time. Everything here is a pure function of the turn, but for `book`, which each side calls once
per model and tool call. It is the provider's ledger: what stands there was asked, and is paid.

It imports the standard library alone, for peers play it in environments of their own.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Literal

LEDGER_VARIABLE = "BENCHMARK_LEDGER"
TOOL = "bench.read"
ANSWER = "All pages are read."

INSTRUCTION_BYTES = 500
RESULT_BYTES = 1_000
LOOK_S = 0.05

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


async def book(run: str, kind: CallKind, turn: int) -> None:
    """Add a call to the run's ledger, a file in the folder that the worker was told.

    A model call also notes the processor time of its process, and is not answered while its hold
    file lies in the folder.
    """
    folder = os.environ.get(LEDGER_VARIABLE)
    if folder is None:
        return
    _append(Path(folder, f"{run}.txt"), f"{kind} {turn}")
    if kind == "model":
        _append(Path(folder, f"{run}.cpu"), f"{time.process_time():.6f}")
        hold = hold_file(Path(folder), run, turn)
        while hold.exists():  # noqa: ASYNC110 - another process removes it
            await asyncio.sleep(LOOK_S)


def hold_file(folder: Path, run: str, turn: int) -> Path:
    """While this file is there, the model call of that turn gets no answer."""
    return folder / f"{run}.hold-{turn}"


def booked(folder: Path, run: str) -> tuple[str, ...]:
    """The ledger of a run, in the order in which the calls began."""
    return _lines(folder / f"{run}.txt")


def processor_seconds(folder: Path, run: str) -> tuple[float, ...]:
    """The processor time of the worker at the beginning of each model call."""
    return tuple(map(float, _lines(folder / f"{run}.cpu")))


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").splitlines()) if path.exists() else ()
