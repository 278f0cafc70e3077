"""People are told of open questions, but not of those that the end of the run closes."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.run.activity_messages import NotifyRequest
from perdure.domain.run.control import Control
from perdure.domain.run.gate_lifecycle import open_gate
from perdure.domain.run.gates import Gate
from perdure.domain.run.spec import Placement
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.continue_as_new import ContinueAsNew
from perdure.workflows.engine.human_input import HumanInput
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import StepRunner

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("known", "called"), [(True, []), (False, ["g1"])], ids=["now", "as before this version"]
)
async def test_a_gate_that_a_stop_finds_open_calls_nobody(
    monkeypatch: pytest.MonkeyPatch, known: bool, called: list[str]
) -> None:
    monkeypatch.setattr(workflow, "now", lambda: NOW)
    monkeypatch.setattr(workflow, "patched", lambda _: known)
    control = Control(stop="graceful")
    gate = open_gate(control, kind="tool_approval", prompt="Write?", now=NOW)
    run = SimpleNamespace(
        state=SimpleNamespace(control=control, told={}, notifies=True),
        interruption=None,
        demanded_ending=lambda: Ending(outcome="stopped", reason="stopped"),
        sync_visibility=lambda: None,
        set_step=lambda _: None,
    )
    people = HumanInput(cast("AnyRun", run), cast("StepRunner", None), cast("ContinueAsNew", None))
    told: list[str] = []

    async def notify(asked: Gate, **_: int) -> None:
        told.append(asked.id)

    monkeypatch.setattr(people, "_notify", notify)
    assert await people.wait_for_answer(gate.id) is None
    assert told == called


async def test_a_notice_says_when_its_gate_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name alone it could be a question that the run asked before a reset."""
    monkeypatch.setattr(workflow, "now", lambda: NOW + timedelta(hours=1))
    sent: list[NotifyRequest] = []

    def start(_: object, request: NotifyRequest, **__: object) -> None:
        sent.append(request)

    async def await_step(_: object, *, activity_id: str) -> None:
        assert activity_id == "a1"

    monkeypatch.setattr(workflow, "start_activity_method", start)
    gate = open_gate(Control(), kind="tool_approval", prompt="Write?", now=NOW)
    run = SimpleNamespace(
        id="r1",
        site=Placement(loops="l", models="m", tools="t", root="/r"),
        next_activity_id=lambda: "a1",
    )
    steps = SimpleNamespace(await_step=await_step)
    people = HumanInput(cast("AnyRun", run), cast("StepRunner", steps), cast("ContinueAsNew", None))
    for reminder in range(2):
        await people._notify(gate, reminder=reminder)
    assert [(one.gate, one.reminder, one.opened_at) for one in sent] == [
        (gate.name, 0, NOW),
        (gate.name, 1, NOW),
    ]
