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
MOST_MODULES = {"--help": 276, "config": 165, "pause no-such-run": 221}
"""Of ours, that a plain command may load; each costs the command its time."""
MOST_CPU_S = 3.0
"""Of any of them: 1.2 on a quiet machine, more than twice that on a busy one."""


@pytest.mark.parametrize("name", SURFACE)
def test_what_others_hold_on_to(name: str) -> None:
    assert SURFACE[name]().splitlines() == (FOLDER / name).read_text(encoding="utf-8").splitlines()


def test_nothing_else_is_written_down() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(SURFACE)


@pytest.mark.parametrize("command", MOST_MODULES)
def test_a_plain_command_costs_no_more_than_this(command: str, tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-P", "-c", COUNTED, *command.split()],
        capture_output=True,
        text=True,
        env={**os.environ, "PERDURE_HOME": str(tmp_path)},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    count, provider = done.stderr.splitlines()[-1].split()
    assert int(count) <= MOST_MODULES[command]
    assert provider == "False"
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used <= MOST_CPU_S
