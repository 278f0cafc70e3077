"""Replay and chaos: what they look at, and what they conclude."""

import errno
import json
from pathlib import Path

import pytest

from perdure.domain.budget.journal import AttemptRow, AttemptState
from perdure.domain.llm.usage import Usage
from perdure.interfaces.services import Replayed
from tests.interfaces.cli.memory import Installation, MemoryJournal
from tests.interfaces.cli.samples import NOW, RUN, status


def row(key: str, attempt: int = 1, state: AttemptState = "answered") -> AttemptRow:
    return AttemptRow(
        key=key,
        attempt=attempt,
        root=RUN,
        run=RUN,
        phase="executing",
        role="executor",
        iteration=1,
        model="local",
        state=state,
        usage=Usage(),
        cost_usd=None,
        started_at=NOW,
        seconds=1,
    )


def test_replay_takes_runs_and_files(perdure: Installation) -> None:
    (perdure.folder / "old.json").write_text("{}", encoding="utf-8")
    assert perdure.run("replay", RUN, "old.json") == 0
    assert f"replay ['old.json', '{RUN}']" in perdure.calls
    assert "same decisions" in perdure.out


def test_what_cannot_be_a_file_is_a_run_and_a_file_that_cannot_be_read_is_told(
    perdure: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert perdure.run("replay", "x" * 300) == 4
    (perdure.folder / "old.json").write_text("{}", encoding="utf-8")

    def refused(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refused)
    assert perdure.run("replay", "old.json") == 2
    assert "old.json cannot be read: Permission denied." in perdure.err


def test_a_history_that_no_longer_holds_fails(perdure: Installation) -> None:
    perdure.replays = (Replayed(source=RUN, events=9, problem="event 7 differs"),)
    assert perdure.run("replay", RUN) == 1
    assert "event 7 differs" in perdure.out
    assert perdure.run("replay") == 2
    assert perdure.run("replay", "nothing") == 4


BEFORE = [row("a"), row("b", state="started")]


@pytest.mark.parametrize(
    ("after", "code", "fields"),
    [
        pytest.param(
            [row("a"), row("b", state="lost"), row("b", 2), row("c")],
            0,
            {"kept": 1, "paid_again": 0, "lost_attempts": 1, "made_again": 1},
            id="the call in flight is made again",
        ),
        pytest.param(
            [row("a"), row("a", 2, "duplicate"), row("b")],
            1,
            {"kept": 1, "paid_again": 1, "lost_attempts": 0},
            id="an answered call was paid for again",
        ),
        pytest.param(
            [row("b")], 1, {"kept": 0, "paid_again": 0, "lost_attempts": 0}, id="a reply is gone"
        ),
    ],
)
def test_chaos_compares_the_journal_before_and_after(
    perdure: Installation, after: list[AttemptRow], code: int, fields: dict[str, int]
) -> None:
    perdure.gateway.attempts = BEFORE
    perdure.journal = MemoryJournal(perdure.gateway, later=after)
    assert perdure.run("chaos", RUN, "--json") == code
    lines = [json.loads(line) for line in perdure.out.splitlines()]
    [report] = [line for line in lines if "paid_again" in line]
    assert {name: report[name] for name in fields} == fields
    assert report["killed"] == {"name": "worker", "pid": 4711}
    assert lines[-1]["type"] == "result"


def test_chaos_tells_people(perdure: Installation) -> None:
    assert perdure.run("chaos") == 0
    assert "killed worker (process 4711)" in perdure.err
    assert "✓ nothing was lost" in perdure.out


def test_a_run_that_is_over_cannot_be_disturbed(perdure: Installation) -> None:
    perdure.gateway.statuses[RUN] = status(lifecycle="completed", phase="ended")
    assert perdure.run("chaos", RUN) == 5
    assert not perdure.killed
