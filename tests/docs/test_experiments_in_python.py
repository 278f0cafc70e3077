"""The block of the page on experiments runs as it stands, and a handle steers."""

import textwrap
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml
from installation import Installation
from rest import services_of

from perdure import experiment_client
from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.run.audit import AuditFilter
from perdure.experiment_client import ExperimentHandle, Experiments
from perdure.interfaces.experiments.report import ExperimentReport
from perdure.submission.types import Surroundings
from tests.docs.test_blocks import ROOT, blocks

Program = Callable[[object], Awaitable[ExperimentReport]]


def program() -> Program:
    """The block as the body of a function."""
    (text,) = blocks(ROOT / "docs" / "experiments.md", "python")
    made: dict[str, object] = {}
    exec(f"async def shown(client):\n{textwrap.indent(text, '    ')}", made)  # our own page
    return cast("Program", made["shown"])


@pytest.fixture
async def experiments(site: Installation, tmp_path: Path) -> Experiments:
    """Those of an installation, in a folder with an experiment's file."""
    replies: list[dict[str, object]] = [
        {"when": {"iteration": 1}, "text": "good", "times": 99},
        {"when": {"iteration": 2}, "text": "good great", "times": 99},
    ]
    rubric = [{"name": "g", "evaluator": {"check": "contains", "all": ["good", "great"]}}]
    task = {
        "kind": "refine",
        "goal": "Write.",
        "models": {"executor": await site.script({"replies": replies})},
        "rubric": rubric,
        "refine": {"plan": "off", "classify": "off", "max_iterations": 2},
    }
    arms = {"loop": {}, "single": {"refine.max_iterations": 1}}
    fields = {"task": task, "inputs": ["a", "b"], "arms": arms}
    (tmp_path / "experiment.yaml").write_text(yaml.safe_dump(fields), encoding="utf-8")
    around = Surroundings(
        folder=tmp_path, user_defaults=tmp_path / "none.yaml", default_model="local"
    )
    return Experiments(services=services_of(site), surroundings=around, by="ann")


async def test_the_block_runs_and_a_handle_steers(
    site: Installation, experiments: Experiments, capsys: pytest.CaptureFixture[str]
) -> None:
    report = await program()(SimpleNamespace(experiments=experiments))
    assert [arm.score.mean for arm in report.arms] == [1.0, 0.5]
    assert "4 of 4 trials" in capsys.readouterr().out
    handle: ExperimentHandle = await experiments.attach("@last")
    rows = await handle.trials()
    assert [(row.input, row.arm, row.score) for row in rows] == [
        ("1", "loop", 1.0), ("1", "single", 0.5), ("2", "loop", 1.0), ("2", "single", 0.5),
    ]  # fmt: skip
    for refused in (handle.pause, handle.stop, handle.resume):
        with pytest.raises(NotAllowed):
            await refused()
    assert (await handle.extend(["c"])).trials == 6
    assert (await handle.report(wait=True)).ended == 6
    (listed,) = await experiments.list()
    assert (listed.id, listed.state) == (handle.id, "ended")
    trail = await site.parts.stores.audit.entries(AuditFilter())
    told = [(one.action, one.who) for one in trail]
    assert told == [("experiment_extended", "ann"), ("experiment_started", "ann")]


async def test_the_same_id_is_the_same_experiment_whatever_it_would_cost_now(
    experiments: Experiments, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await experiments.start("experiment.yaml", id="once")

    async def dearer(*_: object, **__: object) -> None:
        raise InvalidInput("One run costs more than the budget by now.")

    monkeypatch.setattr(experiment_client, "bounded", dearer)
    assert (await experiments.start("experiment.yaml", id="once")).id == first.id
    assert (await first.report(wait=True)).ended == 4
