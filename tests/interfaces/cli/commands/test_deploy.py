"""Versions of the workers from a shell: what is shown, what is sent, what stays to be done."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.domain.foundation.errors import NotFound
from perdure.domain.installation.deployment import Build, Deployment, Drained
from perdure.interfaces.deployments import advice
from tests.interfaces.cli.memory import Installation

AT = datetime(2026, 1, 1, tzinfo=UTC)
NEW = Build(id="0.2.0-bbb", status="current", since=AT, workers=2, runs=7)
OLD = Build(id="0.1.0-aaa", status="draining", since=AT, workers=1, runs=1)


@dataclass
class Rolling:
    """A deployment in memory: its state, and what was asked of it."""

    builds: tuple[Build, ...] = (NEW, OLD)
    drains: list[Drained] = field(default_factory=lambda: [Drained(build=OLD)])
    asked: list[object] = field(default_factory=list)
    vanishes: bool = False  # with its last run, as a deleted build does

    async def status(self) -> Deployment:
        return Deployment(name="perdure", own=NEW.id, builds=self.builds)

    async def serving(self) -> str | None:
        return None

    async def elsewhere(self) -> dict[str, int]:
        return {}

    async def promote(self, build: str | None = None) -> Deployment:
        self.asked.append(("promote", build))
        return await self.status()

    async def ramp(self, build: str, percent: float) -> Deployment:
        self.asked.append(("ramp", build, percent))
        return await self.status()

    async def drain(self, build: str, *, move: bool = False) -> Drained:
        self.asked.append(("drain", build, move))
        if not self.drains:
            raise NotFound(f"No one build {build} has registered")
        return self.drains.pop(0) if self.vanishes or len(self.drains) > 1 else self.drains[0]


@pytest.fixture
def rolling() -> Rolling:
    return Rolling()


@pytest.fixture
def perdure(tmp_path: Path, rolling: Rolling) -> Installation:
    return Installation(folder=tmp_path, deployments=rolling)


def test_the_builds_are_shown_with_workers_and_runs(perdure: Installation) -> None:
    assert perdure.run("deploy", "status") == 0
    rows = [line.split() for line in perdure.out.splitlines()]
    assert rows[0] == ["deployment", "perdure"]
    assert rows[2][:4] == ["0.2.0-bbb", "(this", "code)", "current"]
    assert rows[2][-2:] == ["2", "7"]
    assert rows[3][:2] == ["0.1.0-aaa", "draining"]
    assert perdure.run("deploy", "--json") == 0
    told = json.loads(perdure.out.splitlines()[-1])
    assert [one["id"] for one in told["builds"]] == [NEW.id, OLD.id]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["promote"], ("promote", None)),
        (["promote", "0.1"], ("promote", "0.1")),
        (["ramp", "0.1", "12.5"], ("ramp", "0.1", 12.5)),
        (["drain", "0.1"], ("drain", "0.1", False)),
        (["drain", "0.1", "--move"], ("drain", "0.1", True)),
    ],
)
def test_what_is_said_is_asked(
    perdure: Installation, rolling: Rolling, words: list[str], asked: object
) -> None:
    assert perdure.run("deploy", *words) == 0
    assert rolling.asked == [asked]


def test_a_drain_waits_for_the_last_run_and_keeps_what_was_moved(
    perdure: Installation, rolling: Rolling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.interfaces.cli.commands.deploy.LOOK_S", 0)
    free = OLD.model_copy(update={"runs": 0, "status": "drained"})
    rolling.drains = [Drained(build=OLD, moved=("r1",)), Drained(build=OLD), Drained(build=free)]
    assert perdure.run("deploy", "drain", OLD.id, "--move", "--wait") == 0
    assert "moved 1" in perdure.out
    assert "0.1.0-aaa is drained" in perdure.out


def test_a_drain_is_told_to_programs(perdure: Installation, rolling: Rolling) -> None:
    rolling.drains = [Drained(build=OLD, moved=("r1",))]
    assert perdure.run("deploy", "drain", OLD.id, "--move", "--json") == 0
    told = json.loads(perdure.out)
    assert (told["type"], told["moved"]) == ("drained", ["r1"])
    assert told["build"]["since"] == "2026-01-01T00:00:00Z"


def test_a_deleted_build_is_waited_for_until_its_last_run_has_left(
    perdure: Installation, rolling: Rolling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.interfaces.cli.commands.deploy.LOOK_S", 0)
    deleted = OLD.model_copy(update={"status": "deleted", "workers": 0})
    rolling.builds = (NEW, deleted)
    assert perdure.run("deploy", "status") == 0
    assert "1 run of 0.1.0-aaa wait for its workers, and it was deleted" in perdure.out
    rolling.drains, rolling.vanishes = [Drained(build=deleted, moved=("r1",))], True
    assert perdure.run("deploy", "drain", OLD.id, "--move", "--wait") == 0
    assert "0.1.0-aaa is deleted, and no run is left" in perdure.out


def test_a_run_that_stays_is_named_and_not_waited_for(
    perdure: Installation, rolling: Rolling
) -> None:
    rolling.drains = [Drained(build=OLD, stays={"r1": "it decides otherwise"})]
    assert perdure.run("deploy", "drain", OLD.id, "--move", "--wait") == 0
    assert "r1 stays: it decides otherwise" in perdure.out
    assert "1 run left on 1 workers" in perdure.out


@pytest.mark.parametrize(
    ("builds", "told"),
    [
        ((NEW, OLD), []),
        ((OLD,), ["No build is current"]),
        ((NEW.model_copy(update={"workers": 0}),), ["The current build 0.2.0-bbb has no workers"]),
        ((NEW, OLD.model_copy(update={"workers": 0})), ["1 run of 0.1.0-aaa wait"]),
        (
            (NEW, OLD.model_copy(update={"runs": 0, "status": "drained"})),
            ["The workers of 0.1.0-aaa may end"],
        ),
        ((NEW, OLD.model_copy(update={"runs": 0, "status": "inactive"})), []),
    ],
    ids=["well", "none", "no workers", "gone", "drained", "not used yet"],
)
def test_what_is_to_be_done_is_said(builds: tuple[Build, ...], told: list[str]) -> None:
    said = advice(Deployment(name="perdure", own=NEW.id, builds=builds))
    assert len(said) == len(told)
    assert all(one.startswith(start) for one, start in zip(said, told, strict=True))


def test_a_build_is_found_by_a_unique_beginning() -> None:
    deployment = Deployment(name="perdure", own=NEW.id, builds=(NEW, OLD))
    assert deployment.build("0.1") == OLD
    assert deployment.build("0.") is None
    assert deployment.build("0.3") is None
    assert deployment.model_copy(update={"builds": (OLD,)}).build("") is None
