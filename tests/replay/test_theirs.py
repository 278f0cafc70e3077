"""A recorded history of a workflow of somebody else's that awaits loops and answers their gates."""

import json
from pathlib import Path

import pytest
from kept_others import THEIRS, TheirWorkflow
from recordings import FOLDER_OF_THEIRS
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from perdure.adapters.settings.variables import Settings
from perdure.temporal import PerdurePlugin

HISTORIES = sorted(FOLDER_OF_THEIRS.glob("*.json"))


def test_each_is_recorded() -> None:
    assert {path.stem for path in HISTORIES} == set(THEIRS)


@pytest.mark.parametrize("path", HISTORIES, ids=lambda path: path.stem)
async def test_their_workflow_plays_as_it_was(path: Path, tmp_path: Path) -> None:
    history = WorkflowHistory.from_json(path.stem, json.loads(path.read_text(encoding="utf-8")))
    replayer = Replayer(
        workflows=[TheirWorkflow], plugins=[PerdurePlugin(Settings.load(home=tmp_path))]
    )
    await replayer.replay_workflow(history)


async def test_another_workflow_does_not(tmp_path: Path) -> None:
    path = FOLDER_OF_THEIRS / "their_workflow.json"
    text = path.read_text(encoding="utf-8").replace("-settle", "-settled")
    history = WorkflowHistory.from_json(path.stem, json.loads(text))
    replayer = Replayer(
        workflows=[TheirWorkflow], plugins=[PerdurePlugin(Settings.load(home=tmp_path))]
    )
    with pytest.raises(Exception, match=r"[Nn]ondeterminis"):
        await replayer.replay_workflow(history)
