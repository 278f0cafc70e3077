"""Processes foreign text in a child process with limits, and kills it when its time is up.

Merging, parsing and comparing take minutes on some inputs. In a thread of the worker they would
hold the interpreter lock, and so every other run. Short inputs are processed here at once: each
task says up to which size its input is harmless.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from perdure.adapters.bounded_process.tasks import TASKS
from perdure.adapters.sandbox.identity import LAUNCHER
from perdure.extending.check_decorator import CheckFailed

SECONDS = 10.0
# Of data alone: what the interpreter maps (code, libraries) does not count.
MEMORY_BYTES = 2 << 30
Task = Literal["differences", "document", "schema", "pages", "markdown", "links"]


class TooMuch(Exception):
    """The work exceeded its limit of time or memory."""


async def work(task: Task, *given: JsonValue, seconds: float = SECONDS) -> JsonValue:
    """Do one task of `tasks`.

    Raises:
        TooMuch: it took more time or memory than foreign text may.
    """
    return await asyncio.to_thread(work_now, task, *given, seconds=seconds)


def work_now(task: Task, *given: JsonValue, seconds: float = SECONDS) -> JsonValue:
    """The same, blocking, for code that already runs in a thread."""
    text = json.dumps([task, *given])
    # With references even a short schema can recurse without end.
    if len(text) <= TASKS[task].harmless and '"$ref"' not in text:
        return TASKS[task].work(*given)
    # One second more than the timeout, which is the limit that is reported.
    limits = f"RLIMIT_CPU={int(seconds) + 1},RLIMIT_DATA={MEMORY_BYTES},RLIMIT_CORE=0"
    # Isolated: no `PYTHON…` variable and no folder may bring other code into it.
    child = (sys.executable, "-I", "-m", "perdure.adapters.bounded_process")
    try:
        done = subprocess.run(
            # The launcher sets the limits and becomes the child: Python code between fork and exec
            # may wait for ever on a lock of another thread.
            [sys.executable, "-I", "-S", LAUNCHER, limits, *child],
            # `json.dumps` escapes all else, even half a character, for which UTF-8 has no form.
            input=text.encode("ascii"),
            capture_output=True,
            timeout=seconds,
            check=False,
            cwd="/",
            # Nothing else of the environment, which may hold keys; some Pythons need this one.
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
        )
    except subprocess.TimeoutExpired as error:
        raise TooMuch(f"it took more than {seconds:g} s") from error
    if done.returncode:
        raise TooMuch(_why(done.stderr))
    answer: JsonValue = json.loads(done.stdout)
    return answer


def _why(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    if lines and lines[-1].startswith(("MemoryError", "RecursionError")):
        return "it is too large or too deep"
    return lines[-1][:200] if lines else "it was ended by its limits"


async def misfits_of(schema: Mapping[str, JsonValue], value: JsonValue) -> tuple[str, ...]:
    """The errors of a value against a schema, each with its path; empty if it conforms.

    Raises:
        CheckFailed: the schema cannot be used, or takes too long on this value.
    """
    return await asyncio.to_thread(misfits_now, schema, value)


def misfits_now(schema: Mapping[str, JsonValue], value: JsonValue) -> tuple[str, ...]:
    """The same, blocking, for code that already runs in a thread."""
    try:
        answer = work_now("schema", dict(schema), value)
    except TooMuch as error:
        raise CheckFailed(f"the JSON schema cannot be checked: {error}.") from error
    if isinstance(answer, dict):
        raise CheckFailed(str(answer["unusable"]))
    return tuple(map(str, answer)) if isinstance(answer, list) else ()
