"""The plugin: each instruction of an IFBench prompt as a check of a rubric.

The checkers run in a process of their own environment, so that none of their packages meets ours.
"""

import json
import subprocess
import threading
from functools import cache
from pathlib import Path

from pydantic import BaseModel, JsonValue

from perdure import CheckResult, check

FOLDER = Path(__file__).parent
PYTHON = FOLDER / ".venv" / "bin" / "python"


class Prompt(BaseModel):
    """A prompt of IFBench: its instructions by name, in words, and with their arguments."""

    key: str
    prompt: str
    ids: list[str]
    descriptions: list[str]
    arguments: list[dict[str, JsonValue]]


class CheckerProcess:
    """The program `checker.py`, asked one question at a time."""

    def __init__(self) -> None:
        if not PYTHON.exists():
            raise RuntimeError(f"{PYTHON} is missing; `make bench-ifbench` builds it.")
        self._process = subprocess.Popen(
            [PYTHON, "-P", FOLDER / "checker.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._turn = threading.Lock()
        self.prompts = {
            one.key: one for one in map(Prompt.model_validate, json.loads(self._line()))
        }

    def followed(self, key: str, instruction: int, response: str) -> bool:
        """Whether a response follows an instruction of a prompt."""
        asked = {"key": key, "instruction": instruction, "response": response}
        with self._turn:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._line())
        return bool(answer["followed"])

    def close(self) -> None:
        """End the program; it takes the end of its input for that."""
        with self._turn, self._process:
            pass

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{FOLDER / 'checker.py'} ended with {self._process.wait()}.")
        return line


_starting = threading.Lock()


@cache
def _started() -> CheckerProcess:
    return CheckerProcess()


def checkers() -> CheckerProcess:
    """One process for all checks of a worker; it ends when the worker closes its input."""
    with _starting:  # checks run side by side, and a cache alone would let two of them start one
        return _started()


@check(name="ifbench.follows")
def follows(output: str, key: str, instruction: int) -> CheckResult:
    """Whether the output follows an instruction; the message names it, and never the answer."""
    if checkers().followed(key, instruction, output):
        return CheckResult(score=1.0)
    said = checkers().prompts[key].descriptions[instruction]
    return CheckResult(score=0.0, detail=f"not followed: {said}")
