"""The demo: its own home, its ending, and the comparison from its own runs."""

import json
import os
import pty
import signal
import sys
import threading
import time

import pytest

from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.domain.refine.spec import RefineSpec
from perdure.interfaces.cli.commands import demo
from tests.interfaces.cli.memory import Installation


def test_the_demo_lives_in_a_home_that_goes_afterwards(perdure: Installation) -> None:
    assert perdure.run("demo") == 0
    [home] = perdure.homes
    assert home.name.startswith("perdure-demo-")
    assert not home.exists()
    assert perdure.calls == ["connect and start", "disconnect", "down"]
    [spec] = perdure.gateway.started
    assert isinstance(spec, RefineSpec)
    assert spec.models.executor == "local"
    assert len(spec.rubric) == 17
    assert "1 of 2 checks pass: stopped after 2 iterations, the best one is kept." in perdure.out
    assert "What to try next" in perdure.out


def test_a_home_that_is_named_stays(perdure: Installation) -> None:
    home = perdure.folder / "kept"
    assert perdure.run("demo", "--home", str(home)) == 0
    assert perdure.homes == [home]
    assert "down" not in perdure.calls


def test_services_are_stopped_after_ctrl_c_too(perdure: Installation) -> None:
    perdure.gateway.follow_error = KeyboardInterrupt()
    assert perdure.run("demo") == 130
    assert perdure.calls[-1] == "down"
    assert "The run goes on" not in perdure.err


def test_ctrl_c_at_the_end_waits_for_nothing(
    perdure: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, theirs = pty.openpty()

    def presses() -> None:
        while "until you press Enter" not in perdure.err:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with os.fdopen(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        threading.Thread(target=presses, daemon=True).start()
        began = time.monotonic()
        assert perdure.run("demo", terminal=True) == 130
        assert time.monotonic() - began < demo.LINGER_S / 2
    os.close(keys)
    assert perdure.calls[-1] == "down"


def test_seeds_are_one_experiment_at_equal_spend(perdure: Installation) -> None:
    assert perdure.run("demo", "--seeds", "2", "--json") == 0
    report = json.loads(perdure.out)
    assert report["type"] == "experiment_report"
    (plan, entries) = perdure.experiments.started[-1]
    assert [arm.name for arm in plan.arms] == ["loop", "single", "same_calls", "same_tokens"]
    assert [entry.name for entry in entries] == ["seed 1", "seed 2"]
    assert {arm.task["models"]["executor"] for arm in plan.arms} == {"local"}  # type: ignore[index,call-overload]
    assert perdure.run("demo", "--seeds", "6") == 0
    assert "product-page: 6 inputs, 24 of 24 trials" in perdure.out
    assert "No difference between loop and single can be told" in perdure.out


def test_the_seeds_are_drawn(perdure: Installation) -> None:
    assert perdure.run("demo", "--seeds", "1", "--plot", "out/a.svg") == 0
    assert "same_tokens" in (perdure.folder / "out" / "a.svg").read_text(encoding="utf-8")


def test_seeds_without_scores_are_not_drawn(
    perdure: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "svg", lambda _: None)
    assert perdure.run("demo", "--seeds", "1", "--plot", "a.svg") == 0
    assert "a.svg was not drawn" in perdure.err
    assert not (perdure.folder / "a.svg").exists()


@pytest.mark.parametrize("place", ["folder", "file/a.svg"])
def test_a_place_that_cannot_be_drawn_to_starts_nothing(perdure: Installation, place: str) -> None:
    (perdure.folder / "folder").mkdir()
    (perdure.folder / "file").touch()
    assert perdure.run("demo", "--seeds", "1", "--plot", place) == 5
    assert "cannot be written" in perdure.err and "Name another file with --plot" in perdure.err
    assert perdure.calls == []


def test_a_place_that_is_lost_meanwhile_is_told_after_the_report(
    perdure: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(_: object) -> str:
        (perdure.folder / "a.svg").mkdir()
        return "<svg/>"

    monkeypatch.setattr(demo, "svg", drawn)
    assert perdure.run("demo", "--seeds", "1", "--plot", "a.svg") == 5
    assert "product-page: 1 input" in perdure.out
    assert "a.svg cannot be written" in perdure.err


def test_a_measurement_that_fails_leaves_the_files_as_they_were(perdure: Installation) -> None:
    perdure.connect_error = ServiceUnavailable("away")
    (perdure.folder / "old.svg").write_text("drawn before")
    for name in ("old.svg", "new.svg"):
        assert perdure.run("demo", "--seeds", "1", "--plot", name) == 3
    assert (perdure.folder / "old.svg").read_text() == "drawn before"
    assert not (perdure.folder / "new.svg").exists()


def test_wrong_seeds_start_nothing(perdure: Installation) -> None:
    assert perdure.run("demo", "--seeds", "0") == 2
    assert perdure.run("demo", "--plot", "a.svg") == 2
    assert perdure.calls == []
