"""The command in processes as shells, schedulers and containers start them."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import IO

import pytest

from perdure.interfaces.cli.output import Output

C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
TASK = "kind: agent\ngoal: Grüße an Øystein 😀\nbudget: {tokens: Łódź}\n"


def perdure(
    *words: str,
    folder: Path,
    home: Path,
    given: bytes | None = None,
    stdout: IO[bytes] | int = subprocess.PIPE,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[bytes]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [sys.executable, "-P", "-m", "perdure", *words],
        cwd=folder,
        env={**kept, "PERDURE_HOME": str(home), **variables},
        input=given,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=120,
        check=False,
    )


def test_a_pipe_gets_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text(TASK, encoding="utf-8")
    done = perdure(
        "validate", "task.yaml", folder=tmp_path, home=tmp_path / "home", variables=C_LOCALE
    )
    assert "Łódź".encode() in done.stderr
    assert done.returncode == 2


@pytest.mark.parametrize("variables", [C_LOCALE, {"PYTHONIOENCODING": "ascii"}])
def test_json_in_a_pipe_can_be_read_in_every_locale(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    (tmp_path / "task.yaml").write_text(TASK, encoding="utf-8")
    words = ("validate", "task.yaml", "--json")
    done = perdure(*words, folder=tmp_path, home=tmp_path / "home", variables=variables)
    assert "Łódź" in json.dumps(json.loads(done.stdout), ensure_ascii=False)
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("words", ["--json config workers 2", "config workers 2 --json"])
def test_a_wrong_settings_file_is_mended_wherever_json_stands(tmp_path: Path, words: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "perdure.yaml").write_text("workers: many\n", encoding="utf-8")
    done = perdure(*words.split(), folder=tmp_path, home=tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["type"] == "set"


def test_a_folder_that_is_gone_is_named_in_words(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os, sys; os.rmdir(os.getcwd()); sys.argv = ['perdure', 'list', '--json'];"
        "from perdure.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=gone, capture_output=True, timeout=120, check=False
    )
    assert b"Traceback" not in done.stderr
    assert b"The current folder cannot be used: No such file or directory." in done.stderr
    assert done.returncode == json.loads(done.stdout)["exit_code"] == 2


@pytest.mark.parametrize("words", [("list", "--json"), ("list",)])
def test_a_wrong_setting_is_told_as_the_command_tells_everything(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    variables = {"PERDURE_MAX_OPEN_RUNS": "many"}
    done = perdure(*words, folder=tmp_path, home=tmp_path / "home", variables=variables)
    assert b"PERDURE_MAX_OPEN_RUNS" in done.stderr
    told = json.loads(done.stdout)["message"] if "--json" in words else done.stdout.decode()
    assert ("PERDURE_MAX_OPEN_RUNS" in told) == ("--json" in words)
    assert done.returncode == 2


@pytest.mark.parametrize("words", [("--help",), ("validate", "task.yaml"), ("config",), ("down",)])
def test_what_keeps_nothing_needs_no_home(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "task.yaml").write_text("kind: agent\ngoal: Name a fruit.\n", encoding="utf-8")
    (tmp_path / "file").touch()

    done = perdure(*words, folder=tmp_path, home=tmp_path / "file" / "home")

    assert done.returncode == 0, done.stderr


def test_what_keeps_something_names_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    done = perdure("run", "Name a fruit.", folder=tmp_path, home=tmp_path / "file" / "home")

    assert done.returncode == 3
    assert b"Not a directory" in done.stderr
    assert b"PERDURE_HOME" in done.stderr


@pytest.mark.parametrize("words", [("validate", "-"), ("run", "-", "--dry-run")])
def test_a_task_comes_through_a_pipe(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "list.md").write_text("Name fruits.", encoding="utf-8")
    task = b"{kind: agent, goal: Name it., context: {list: {file: list.md}}}"

    done = perdure(*words, "--json", folder=tmp_path, home=tmp_path / "home", given=task)

    assert done.returncode == 0, done.stderr
    assert b"Name it." in done.stdout


def test_where_no_task_file_stands_a_dash_is_no_file(tmp_path: Path) -> None:
    done = perdure("add", "@last", "-", folder=tmp_path, home=tmp_path / "home")

    assert done.returncode == 2
    assert b"/dev/stdin" not in done.stderr


@pytest.mark.parametrize("words", [("definitions",), ("definitions", "--json"), ("--help",)])
def test_output_that_does_not_fit_is_told(tmp_path: Path, words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = perdure(*words, folder=tmp_path, home=tmp_path / "home", stdout=full)

    assert done.returncode == os.EX_IOERR
    assert b"could not write: No space left on device." in done.stderr
    assert b"Traceback" not in done.stderr


def test_an_error_that_does_not_fit_into_json_is_told_beside_it(tmp_path: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        words = ("status", "x", "--bad", "--json")
        done = perdure(*words, folder=tmp_path, home=tmp_path / "home", stdout=full)

    assert done.returncode == os.EX_IOERR
    assert b"--bad" in done.stderr
    assert b"could not write: No space left on device." in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_command_whose_outputs_are_closed_ends_as_ever(tmp_path: Path) -> None:
    command = f"exec {sys.executable} -P -m perdure show-no-such >&- 2>&-"

    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, timeout=120, check=False)

    assert done.returncode == 2


@pytest.mark.parametrize("words", ["repl", "validate -"])
def test_a_command_whose_input_is_closed_reads_nothing(tmp_path: Path, words: str) -> None:
    command = f"exec {sys.executable} -P -m perdure {words} <&-"

    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, timeout=120, check=False, capture_output=True
    )

    assert b"Traceback" not in done.stderr
    assert done.returncode == (0 if words == "repl" else 2)


class Terminal(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("notebook", [False, True])
def test_a_cell_of_a_notebook_gets_no_moving_lines(
    notebook: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("JPY_PARENT_PID", raising=False)
    if notebook:
        monkeypatch.setenv("JPY_PARENT_PID", "1")
    file = Terminal()
    output = Output(file, file)
    with output.working("starting the services"):
        pass
    assert output.is_terminal is not notebook
    assert ("\x1b[" in file.getvalue()) is not notebook
