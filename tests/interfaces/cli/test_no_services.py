"""The command line where no service runs and none is named: nothing is looked for elsewhere."""

import asyncio
import io
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from perdure.adapters.settings.variables import Settings
from perdure.adapters.stores.open_stores import open_stores
from perdure.cli_wiring import app_context
from perdure.domain.run.status import StoredRun
from perdure.interfaces.cli.app import main
from tests.interfaces.cli.samples import NOW, RUN, START, result

NOTHING_RUNS = "No services of this installation run, and TEMPORAL_ADDRESS names no Temporal server"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, where nothing of the machine's environment counts."""
    for name in ("TEMPORAL_ADDRESS", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(folder: Path, port: int, argv: Sequence[str]) -> tuple[int, str]:
    """Exit code and what was printed."""
    out = io.StringIO()
    context = app_context(Settings.load(home=folder / "home", temporal_port=port))
    code = main(replace(context, stdout=out, stderr=out), argv)
    return code, " ".join(out.getvalue().split())


@pytest.mark.parametrize(
    ("words", "code"),
    [(("run", "--dry-run", "Write a haiku"), 0), (("gates",), 3), (("doctor",), 0)],
    ids=["dry run", "a question that needs a server", "what is wrong"],
)
def test_a_stranger_at_the_usual_port_is_not_asked(
    folder: Path, words: Sequence[str], code: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        ended, told = said(folder, stranger.getsockname()[1], words)
        stranger.setblocking(False)
        with pytest.raises(BlockingIOError):
            stranger.accept()
    assert (ended, NOTHING_RUNS in told) == (code, True), told
    assert "perdure up --detach" in told


ABSENT = ("--plugin", "./absent.py")


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        (("run", "Write a haiku", *ABSENT), ""),
        (("validate", "task.yaml", *ABSENT), ""),
        (("worker", *ABSENT), ""),
        (("up", *ABSENT), ""),
        (("run", "Write a haiku"), "./absent.py"),
        (("worker",), "./absent.py"),
        (("up",), "./absent.py"),
        (("up", "--detach"), "./absent.py"),
    ],
)
def test_a_plugin_whose_file_is_missing_is_told_before_anything_starts(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], variable: str
) -> None:
    (folder / "task.yaml").write_text("kind: agent\ngoal: g\n")
    monkeypatch.setenv("PERDURE_PLUGINS", variable)
    code, told = said(folder, 1, words)
    assert (code, f"The plugin {folder / 'absent.py'} cannot be loaded" in told) == (2, True), told
    assert "Name a file that exists" in told
    assert not (folder / "home" / "temporal.sqlite").exists()


@pytest.mark.parametrize("words", [("run", "Write a haiku"), ("validate", "task.yaml"), ("up",)])
@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def broken(:\n", "SyntaxError: invalid syntax (broken.py, line 1)"),
        ("  x = 1\n", "IndentationError: unexpected indent (broken.py, line 1)"),
        ("x = '\0'\n", "(broken.py"),
    ],
)
def test_a_plugin_that_is_no_python_is_told_before_anything_starts(
    folder: Path, words: Sequence[str], code: str, told: str
) -> None:
    """A worker would say it after most of a minute, once the services that ran have ended."""
    (folder / "task.yaml").write_text("kind: agent\ngoal: g\n")
    (folder / "broken.py").write_text(code)
    ended, output = said(folder, 1, (*words, "--plugin", "./broken.py"))
    assert (ended, f"The plugin {folder / 'broken.py'} cannot be loaded" in output) == (2, True)
    assert told in output
    assert not (folder / "home" / "temporal.sqlite").exists()


@pytest.mark.parametrize("words", [("run", "Write a haiku"), ("up",)])
def test_a_plugin_that_does_not_load_is_told_before_anything_starts(
    folder: Path, words: Sequence[str]
) -> None:
    (folder / "broken.py").write_text("import json\n\nLIMIT = limit_of_mine\n")
    ended, output = said(folder, 1, (*words, "--plugin", "./broken.py"))
    assert (ended, f"The plugin {folder / 'broken.py'} cannot be loaded" in output) == (2, True)
    assert "NameError: name 'limit_of_mine' is not defined (broken.py, line 3" in output
    assert not (folder / "home" / "temporal.sqlite").exists()


WRONG = "kind: refine\ngaol: x\n"
GOOD = "kind: agent\ngoal: g\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "wrong.yaml"), "gaol"),
        (("experiment", "experiment.yaml"), "gaol"),
        (("schedule", "create", "nightly", "wrong.yaml", "--every", "6h"), "gaol"),
        (("schedule", "create", "nightly", "good.yaml", "--cron", "at noon"), "cron"),
    ],
    ids=["run", "experiment", "schedule", "clock"],
)
def test_wrong_files_are_refused_before_anything_starts(
    folder: Path, words: Sequence[str], told: str
) -> None:
    (folder / "wrong.yaml").write_text(WRONG)
    (folder / "good.yaml").write_text(GOOD)
    (folder / "experiment.yaml").write_text("{task: wrong.yaml, inputs: [{id: a, goal: b}]}")
    code, text = said(folder, 9, words)
    assert (code, told in text, "starting" in text) == (2, True, False), text
    assert not (folder / "home" / "temporal.sqlite").exists()


def test_what_is_stored_is_shown_without_the_server_that_knows_what_was_learned(
    folder: Path,
) -> None:
    done = result(learnings_started=True)
    row = StoredRun(
        id=RUN,
        kind="refine",
        goal=GOOD,
        label=None,
        lifecycle="completed",
        outcome="accepted",
        started_at=START,
        ended_at=NOW,
        result=done.model_dump_json(),
    )

    async def keep() -> None:
        stores = await open_stores(folder / "home")
        await stores.records.put_run(row)
        await stores.close()

    asyncio.run(keep())
    code, text = said(folder, 9, ("result", RUN))
    assert (code, "A bottle of steel." in text) == (0, True), text
    assert "learned not known, as no server answers now" in text


PAID = """\
task: {kind: agent, goal: Write., context: {about: null}, models: {executor: claude-haiku-4-5}}
inputs: [{about: a, expected: b}]
score: labels
arms: {one: {budget: {cost_usd: 9, tokens: 1000000}}}
"""


@pytest.mark.parametrize(
    ("limit", "code", "told"),
    [("10", 0, "Nothing was started."), ("1", 2, "one run of one may spend 5.00 USD")],
)
def test_the_dry_run_of_an_experiment_needs_no_services(
    folder: Path, limit: str, code: int, told: str
) -> None:
    (folder / "e.yaml").write_text(f"{PAID}budget: {limit}\n")
    ended, text = said(folder, 9, ("experiment", "e.yaml", "--dry-run"))
    assert (ended, told in text, "starting" in text) == (code, True, False), text
    assert not (folder / "home" / "temporal.sqlite").exists()
