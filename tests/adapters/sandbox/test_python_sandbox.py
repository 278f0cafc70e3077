"""Python of a rubric: what it may compute, and that it reaches nothing else."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.adapters.sandbox.python_sandbox import SnippetFailed, SnippetRunner
from perdure.domain.evaluation.checks import Snippet, read_snippet

OUTPUT = "Steel bottle, 500 ml.\nKeeps tea hot."


@pytest.fixture(scope="module")
def runner() -> Iterator[SnippetRunner]:
    made = SnippetRunner()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("code", "value"),
    [
        pytest.param("len(output.split())", 7, id="expression"),
        pytest.param("'hot' in output", True, id="truth"),
        pytest.param(
            "import re\ndef check(text):\n  return 0.5, 'half'", (0.5, "half"), id="function"
        ),
        pytest.param("import random\ndef f(text): return random.random()", None, id="chance"),
    ],
)
def test_the_value_is_what_the_code_says(runner: SnippetRunner, code: str, value: object) -> None:
    first, second = (runner.verdict(read_snippet(code), OUTPUT) for _ in range(2))
    assert first == second  # nothing is kept from one run to the next, chance included
    assert value is None or first == value


@pytest.mark.parametrize(
    "code",
    [
        pytest.param("len(output.split()) >= adaptation['least']", id="expression"),
        pytest.param(
            "def f(text, adaptation):\n  return len(text.split()) >= adaptation['least']",
            id="function",
        ),
        pytest.param(
            "def f(text, adaptation={'least': 0}):\n"
            "  return len(text.split()) >= adaptation['least']",
            id="function with a default",
        ),
    ],
)
def test_code_may_ask_for_the_values_in_force(runner: SnippetRunner, code: str) -> None:
    found = [runner.verdict(read_snippet(code), OUTPUT, {"least": least}) for least in (7, 8)]
    assert found == [True, False]


def test_the_default_of_an_adaptation_holds_while_none_is_in_force(runner: SnippetRunner) -> None:
    code = "def f(text, adaptation={'least': 0.5}):\n  return adaptation['least']"
    assert runner.verdict(read_snippet(code), OUTPUT) == 0.5


LOOP = "def f(text):\n  while True: pass"
ATTACKS = {
    "loop": (LOOP, "TimeoutError"),
    "loop at import": ("while True: pass\ndef f(text): return 1", "TimeoutError"),
    "memory": ("[0] * 10**9", "MemoryError"),
    "growing": ("def f(text):\n  a = []\n  while True: a.append('x' * 1000)", "MemoryError"),
    "huge number": ("10 ** 10 ** 9", "MemoryError"),
    "recursion": ("def f(text): return f(text)", "RecursionError"),
    "printing": ("def f(text):\n  while True: print('x' * 10000)", "(Memory|Timeout)Error"),
    "environment": ("import os\ndef f(text): return os.environ", "not supported"),
    "listing": ("import os\ndef f(text): return os.listdir('/')", "PermissionError"),
    "reading": ("open('/etc/passwd').read()", "PermissionError"),
    "reading by path": (
        "import pathlib\ndef f(text): return pathlib.Path('/etc/passwd').read_text()",
        "PermissionError",
    ),
    "writing": ("open('{folder}/pwned', 'w').write('x')", "Error"),
    "processes": ("import subprocess\ndef f(text): return 1", "ModuleNotFoundError"),
    "network": ("import socket\ndef f(text): return 1", "ModuleNotFoundError"),
    "native code": ("import ctypes\ndef f(text): return 1", "ModuleNotFoundError"),
    "import by name": ("__import__('os').system('id')", "NameError"),
    "classes": ("().__class__.__bases__[0].__subclasses__()", "AttributeError"),
    "frames": ("(lambda: 0).__globals__", "AttributeError"),
    "exec": ("exec('while True: pass')", "TimeoutError"),
    "exit": ("def f(text): raise SystemExit", "SystemExit"),
}


@pytest.mark.parametrize(
    ("code", "said"), [pytest.param(*attack, id=name) for name, attack in ATTACKS.items()]
)
def test_attacks_end_in_an_error_and_touch_nothing(
    runner: SnippetRunner, tmp_path: Path, code: str, said: str
) -> None:
    began = time.monotonic()
    with pytest.raises(SnippetFailed, match=said):
        runner.verdict(read_snippet(code.replace("{folder}", str(tmp_path))), OUTPUT)
    assert time.monotonic() - began < 30
    assert not list(tmp_path.iterdir())
    # The runner is as good as before.
    assert runner.verdict(Snippet("", "1 + 1"), OUTPUT) == 2


def test_sleeping_holds_no_worker(runner: SnippetRunner) -> None:
    began = time.monotonic()
    runner.verdict(read_snippet("import time\ndef f(text):\n  time.sleep(60)\n  return 1"), OUTPUT)
    assert time.monotonic() - began < 30


def test_text_that_is_no_utf8_is_judged_too(runner: SnippetRunner) -> None:
    assert runner.verdict(Snippet("", "output"), "a\ud800b") == "a?b"


def test_values_that_are_no_scores_come_out_as_they_are(runner: SnippetRunner) -> None:
    value = runner.verdict(Snippet("", "float('nan')"), OUTPUT)
    assert isinstance(value, float) and math.isnan(value)


def test_a_closed_runner_starts_anew(runner: SnippetRunner) -> None:
    runner.close()
    assert runner.verdict(Snippet("", "2"), OUTPUT) == 2
