"""A goal that is amended reaches the judges of a delegation, who read it in the frame."""

from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.run.control import Control
from perdure.domain.run.messages import Amend
from perdure.domain.turns.turn import Ending
from perdure.workflows import delegation
from perdure.workflows.delegation import DelegationLoop
from perdure.workflows.delegation_parts.questions import Questions
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine.engine import Engine

ENDED = Ending(outcome="accepted", reason="completed")


async def _nothing() -> None:
    pass


@pytest.mark.parametrize(
    ("stored", "frame", "waits"), [(True, "f2", None), (False, "f1", "Name elms.")]
)
async def test_an_amended_goal_is_in_the_frame_of_the_next_stage(
    stored: bool, frame: str, waits: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    monkeypatch.setattr(workflow, "upsert_memo", lambda _: None)
    state = SimpleNamespace(control=Control(), frame="f1", task_tokens=1, stage="manage")
    run = object.__new__(DelegationRun)
    run.state, run.edits = state, ()  # type: ignore[assignment]
    run.spec = DelegationSpec.model_validate({"kind": "delegation", "goal": "Name elms."})
    run.edit(Amend(goal="Name elms."))

    async def reframed(_: object, old: str, *, goal: str, summary: str) -> SimpleNamespace | None:
        assert (old, goal, summary) == ("f1", "Name elms.", "new goal")
        return SimpleNamespace(frame="f2", task_tokens=2) if stored else None

    frames: list[str] = []

    async def step(_: DelegationLoop) -> Ending:
        frames.append(state.frame)
        return ENDED

    async def close(_: DelegationLoop, ending: Ending) -> Ending:
        return ending

    monkeypatch.setattr(delegation, "reframe", reframed)
    monkeypatch.setattr(DelegationLoop, "_step", step)
    monkeypatch.setattr(DelegationLoop, "_close", close)
    loop = object.__new__(DelegationLoop)
    loop.run = run
    life = SimpleNamespace(checkpoint=_nothing)
    loop.engine = cast("Engine", SimpleNamespace(life=life))
    loop.questions = cast("Questions", SimpleNamespace(escalate_to_person=_nothing))
    assert await loop._loop() == ENDED
    assert (frames, state.control.goal) == ([frame], waits)
