"""What others hold on to stays as it is, or is changed on purpose.

A difference is either undone or, when it is meant, written anew (see `outside.py`) and reviewed.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.outside import FOLDER, surface

SURFACE = surface()
COUNTED = """
import sys
from perdure.__main__ import main
from perdure.interfaces.cli import app

def leave(code):
    packages = [name.split(".")[0] for name in sys.modules]
    ours = [name for name in packages if name in {"perdure", "workflows", "activities"}]
    sys.stderr.write(f"\\n{len(ours)} {'anthropic' in sys.modules}")
    raise SystemExit(code)

app.leave = leave
sys.argv = ["perdure", *sys.argv[1:]]
main()
"""
MOST_MODULES = {"--help": 344, "config": 184, "pause no-such-run": 258}
"""Of ours, that a plain command may load; each costs the command its time."""
LIBRARIES = "import temporalio.client, pydantic, sqlalchemy, httpx2, cyclopts, rich.console"
MOST_OF_LIBRARIES = 3.0
"""The processor time of a command beside that of the libraries alone, measured next to it."""
PAIRS = 3
"""A machine that stalls in one of them does not stall in all."""


@pytest.mark.parametrize("name", SURFACE)
def test_what_others_hold_on_to(name: str) -> None:
    assert SURFACE[name]().splitlines() == (FOLDER / name).read_text(encoding="utf-8").splitlines()


def test_nothing_else_is_written_down() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(SURFACE)


@pytest.mark.long
@pytest.mark.parametrize("command", MOST_MODULES)
def test_a_plain_command_costs_no_more_than_this(command: str, tmp_path: Path) -> None:
    ratios: list[float] = []
    for _ in range(PAIRS):
        done, used = _measured([COUNTED, *command.split()], tmp_path)
        count, provider = done.stderr.splitlines()[-1].split()
        assert int(count) <= MOST_MODULES[command]
        assert provider == "False"
        _, least = _measured([LIBRARIES], tmp_path)
        ratios.append(used / least)
        if ratios[-1] <= MOST_OF_LIBRARIES:
            return
    pytest.fail(f"{command} takes {ratios} times the processor time of its libraries")


def _measured(code: list[str], home: Path) -> tuple["subprocess.CompletedProcess[str]", float]:
    """What a Python program printed, and the seconds of processor time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-P", "-c", *code],
        capture_output=True,
        text=True,
        env={**os.environ, "PERDURE_HOME": str(home)},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
