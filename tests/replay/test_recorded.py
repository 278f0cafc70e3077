"""Every recorded history still replays, word for word; and a change of behaviour is caught."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import faithful
import pytest

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "histories"
HISTORIES = sorted(FOLDER.glob("*.json"))

MUTATIONS = {
    "a step is renamed": ("loop.py", "            Finish.finish,", "            Notify.notify,"),
    "a step is added": (
        "model_calls.py",
        "        self.show(None)\n        if isinstance(called, Broken):",
        "        await self._reconciled(activity_id)\n        if isinstance(called, Broken):",
    ),
    "a step is dropped": (
        "refine.py",
        "        return await self.finish(result, tuple(core.turn.unwritten))",
        "        return result",
    ),
    "calls start in another order": (
        "batch.py",
        "[self._start(state, entry) for entry in allowed]",
        "[self._start(state, entry) for entry in reversed(allowed)]",
    ),
    "waves are smaller": ("batch.py", "WAVE = 16", "WAVE = 1"),
    "activity ids change": ("steps.py", 'f"s{self.steps_started}"', 'f"t{self.steps_started}"'),
    "randomness without a seed": (
        "model_calls.py",
        "max_tokens=fit.max_tokens,",
        'max_tokens=fit.max_tokens - __import__("random").randrange(1, 9),',
    ),
    "the wall clock is read": (
        "control.py",
        "return (workflow.now() - self.core.started_at).total_seconds()",
        'return __import__("time").time() - self.core.started_at.timestamp()',
    ),
    "the deadline sets no timer": ("loop.py", "                    timeout=left,\n", ""),
    "guidance is repeated": (
        "turns.py",
        "control.inputs, control.guidance = [], []",
        "control.inputs = []",
    ),
    "rolls are not counted": ("loop.py", "        self.core.rolls += 1\n", ""),
}


def test_there_are_enough_of_them() -> None:
    names = {path.stem.rpartition("-")[0] for path in HISTORIES}
    assert len(names) >= 8
    assert sum("rolls" in path.stem for path in HISTORIES) >= 2, "a chain of executions"


async def test_every_recorded_history_replays_word_for_word() -> None:
    named = {path.stem: path.read_bytes() for path in HISTORIES}
    departed = [f"{name}: {why}" async for name, why in faithful.problems(named) if why]
    assert not departed, "\n".join(departed)


def test_recordings_tell_nothing_of_the_machine_that_made_them() -> None:
    for path in HISTORIES:
        assert "/tmp/" not in path.read_text(), path


def _replayed_with(folder: Path) -> subprocess.CompletedProcess[str]:
    search = [str(folder), str(ROOT / "tests" / "support"), str(ROOT)]
    program = ROOT / "tests" / "support" / "replay_all.py"
    return subprocess.run(
        [sys.executable, "-P", str(program), str(FOLDER)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(search)},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught(name: str, tmp_path: Path) -> None:
    file, before, after = MUTATIONS[name]
    shutil.copytree(ROOT / "workflows", tmp_path / "workflows")
    source = tmp_path / "workflows" / file
    text = source.read_text()
    assert text.count(before) >= 1, f"the mutation {name!r} no longer applies to {file}"
    source.write_text(text.replace(before, after))
    replayed = _replayed_with(tmp_path)
    assert replayed.returncode == 1, f"{name} went unseen\n{replayed.stdout}{replayed.stderr}"


@pytest.mark.slow
def test_the_unchanged_code_passes_the_same_way(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "workflows", tmp_path / "workflows")
    replayed = _replayed_with(tmp_path)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
