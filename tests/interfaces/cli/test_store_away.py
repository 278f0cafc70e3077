"""The command line while the store is away: exit code 3, the store's own words, never a trace."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.cli_wiring import app_context
from perdure.interfaces.cli.app import main

# Nobody listens there: no service of this machine is started or asked.
NOBODY = "127.0.0.1:9"
AWAY = "The database postgresql://[redacted]@127.0.0.1:9/perdure cannot be reached."
RUN = "agent-notes-7f3a2b1c9d8e"
COMMANDS = [
    "run say", "run --detach say", "watch RUN", "fork RUN --from-iteration 1", "retry RUN",
    "status RUN", "history RUN", "costs", "costs RUN", "result RUN", "gates", "explain RUN", "list",
    "transcript RUN", "artifacts RUN", "artifact RUN 1", "diff RUN", "apply RUN", "projects",
    "sessions", "pause RUN", "resume RUN", "stop RUN", "stop @all", "amend RUN --guidance words",
    "repair RUN", "answer RUN:g1 yes", "add RUN words", "memory list", "skills list",
    "patterns list", "gc",
    "gc --dry-run", "replay RUN", "api token list", "api token create me", "loops list",
    "loops status RUN", "tools list", "status @last", "audit",
]  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", NOBODY)


def said(home: Path, argv: Sequence[str]) -> tuple[int, str, str]:
    """Exit code, output and errors of one command line."""
    away = "postgresql://perdure:secret@127.0.0.1:9/perdure"
    out, err = io.StringIO(), io.StringIO()
    context = app_context(Settings.load(home=home, database_url=away))
    code = main(replace(context, stdout=out, stderr=err), argv)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_that_the_store_is_away(tmp_path: Path, command: str) -> None:
    code, out, err = said(tmp_path / "home", command.replace("RUN", RUN).split())
    assert (code, AWAY in " ".join(err.split())) == (3, True), (out, err)
    assert "Check that the server runs" in err
    assert "secret" not in out + err
    assert "Traceback" not in out + err


def test_programs_are_told_the_code(tmp_path: Path) -> None:
    code, out, err = said(tmp_path / "home", ["status", RUN, "--json"])
    told = json.loads(out or err)
    assert (code, told["code"]) == (3, "store_away"), told


@pytest.mark.long
def test_a_process_of_its_own_ends_the_same_way(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "perdure", "status", RUN],
        env={
            **os.environ,
            "PERDURE_HOME": str(tmp_path / "home"),
            "PERDURE_DATABASE_URL": "postgresql://perdure:secret@127.0.0.1:9/perdure",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 3, ended
    assert AWAY in " ".join(ended.stderr.split())
    assert "Traceback" not in ended.stderr
