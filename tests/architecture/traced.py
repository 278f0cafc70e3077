"""Runs a command, then tells which functions of ours it called: `python -P traced.py WORDS`.

The last line of stderr is JSON: calls by file and function, without what importing calls.
"""

import inspect
import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType

import perdure
from perdure.__main__ import main
from perdure.interfaces.cli import app

ROOT = str(Path(perdure.__file__).parent)
CALLS: Counter[str] = Counter()
STARTED: set[FrameType] = set()


def traced(frame: FrameType, event: str, _: object) -> None:
    code = frame.f_code
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        # Each resumption is an event too.
        if frame in STARTED:
            return
        STARTED.add(frame)
    # Bodies of classes are no functions, and comprehensions are part of theirs.
    function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
    if event == "call" and function and code.co_filename.startswith(ROOT) and not _imports(frame):
        CALLS[f"{code.co_filename.removeprefix(ROOT)}:{code.co_qualname}"] += 1


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def leave(code: int) -> None:
    sys.setprofile(None)
    sys.stdout.flush()
    sys.stderr.write(f"\n{json.dumps(CALLS)}\n")
    sys.stderr.flush()
    os._exit(code)


app.leave = leave
threading.setprofile(traced)
sys.setprofile(traced)
main()
