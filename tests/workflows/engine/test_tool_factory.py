"""The question about a made tool, by itself, with people who answer at once."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.generated_tools.messages import MakeToolReport
from perdure.domain.generated_tools.rejections import ToolRefused
from perdure.domain.generated_tools.tool_registry import Toolbox
from perdure.domain.run.control import Control
from perdure.domain.run.gates import Gate, GateAnswer
from perdure.workflows.delegation_parts import tool_factory
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.delegation_parts.tool_factory import ToolFactory
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.step_runner import Completed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HASH = "a" * 64
REPORT = MakeToolReport(name="text.count", hash=HASH, description="counts")
SPEC = DelegationSpec.model_validate(
    {"kind": "delegation", "goal": "g", "delegation": {"tools_factory": {"approve": True}}}
)


@dataclass
class FakePeople:
    """People who approve what is asked, and never answer what they do not see."""

    control: Control
    opened: list[str] = field(default_factory=list)

    def open_gate(self, *_: object, **__: object) -> Gate:
        gate = _gate("g7")
        self.opened.append(gate.id)
        self.control.gates = {gate.id: gate}
        return gate

    async def wait_for_answer(self, gate_id: str) -> Gate | None:
        return self.control.gates.get(gate_id)


def _gate(name: str) -> Gate:
    answer = GateAnswer(choice="approve", text=None, at=NOW, by="ada")
    choices = ("approve", "deny")
    return Gate(
        id=name, kind="tool_approval", prompt="?", choices=choices, opened_at=NOW, answer=answer
    )


@pytest.mark.parametrize(
    ("open_gates", "opened"), [(("g1",), []), ((), ["g7"])], ids=["rolled", "begun anew"]
)
async def test_a_question_that_nobody_sees_any_more_is_asked_anew(
    open_gates: tuple[str, ...], opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    control = Control(gates={name: _gate(name) for name in open_gates})
    people = FakePeople(control)
    state = SimpleNamespace(control=control, toolbox=Toolbox().with_gate(HASH, "g1"))
    run = SimpleNamespace(spec=SPEC, state=state, record_event=lambda *_, **__: None)
    engine = SimpleNamespace(steps=None, people=people, retries=None, models=None)
    factory = ToolFactory(cast("DelegationRun", run), cast("Engine", engine))
    assert await factory._ask_for_approval("w1", REPORT) == (None, True)
    assert (people.opened, state.toolbox.gates) == (opened, {})


async def test_what_a_person_denies_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    denied = GateAnswer(choice="deny", text=None, at=NOW, by="ada")
    control = Control(gates={"g1": _gate("g1").model_copy(update={"answer": denied})})
    state = SimpleNamespace(control=control, toolbox=Toolbox().with_gate(HASH, "g1"))
    run = SimpleNamespace(spec=SPEC, state=state, record_event=lambda *_, **__: None)
    engine = SimpleNamespace(steps=None, people=FakePeople(control), retries=None, models=None)
    factory = ToolFactory(cast("DelegationRun", run), cast("Engine", engine))
    assert await factory._ask_for_approval("w1", REPORT) == (None, False)
    assert state.toolbox.denied == (HASH,)


class _Rolled(Exception):
    pass


async def test_a_run_that_rolls_while_a_repaired_tool_is_asked_about_repairs_it_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    monkeypatch.setattr(tool_factory, "count_tool", lambda _: None)
    state = SimpleNamespace(control=Control(), toolbox=Toolbox())
    people = FakePeople(state.control)
    run = SimpleNamespace(
        spec=SPEC, state=state, record_event=lambda *_, **__: None, ending=lambda: None
    )
    rejected = ToolRefused(stage="smoke", code=422, category="smoke", message="no")
    looked_at: list[str] = []
    repaired: list[str] = []

    async def looked(_: ToolFactory, worker: str, draft: str) -> Completed[MakeToolReport]:
        assert worker == "w1"
        looked_at.append(draft)
        refused = rejected if draft == "as handed in" else None
        return Completed(REPORT.model_copy(update={"refused": refused}))

    async def repair(_: ToolFactory, worker: str, draft: str, __: object) -> str:
        repaired.append(draft)
        return f"{draft}, repaired by {worker}"

    async def goes_on() -> bool:
        return False

    async def rolls(_: str) -> Gate | None:
        raise _Rolled

    monkeypatch.setattr(ToolFactory, "_validate_draft", looked)
    monkeypatch.setattr(ToolFactory, "_repair", repair)
    asking = SimpleNamespace(open_gate=people.open_gate, wait_for_answer=rolls)
    steps = SimpleNamespace(wait_while_paused=goes_on)
    for asked in (asking, people):
        engine = SimpleNamespace(steps=steps, people=asked, retries=None, models=None)
        factory = ToolFactory(cast("DelegationRun", run), cast("Engine", engine))
        with suppress(_Rolled):
            assert await factory.make_tools("w1", ("as handed in",)) is None
    again = "as handed in, repaired by w1"
    assert (repaired, people.opened) == (["as handed in"], ["g7"])
    assert looked_at == ["as handed in", again, again]
    toolbox = state.toolbox
    assert (toolbox.handled, toolbox.under_way) == (("as handed in",), {})
    assert toolbox.pinned == {"text.count": HASH}
    assert toolbox.metrics.attempts == 1
