"""The question about a made tool, by itself, with people who answer at once."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.generated_tools.messages import MakeToolReport
from perdure.domain.generated_tools.tool_registry import Toolbox
from perdure.domain.run.control import Control
from perdure.domain.run.gates import Gate, GateAnswer
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.delegation_parts.tool_factory import ToolFactory
from perdure.workflows.engine.engine import Engine

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

    async def answered(self, gate_id: str) -> Gate | None:
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
    state = SimpleNamespace(control=control, toolbox=Toolbox().asked(HASH, "g1"))
    run = SimpleNamespace(spec=SPEC, state=state, record_event=lambda *_, **__: None)
    engine = SimpleNamespace(steps=None, people=people, retries=None, models=None)
    factory = ToolFactory(cast("DelegationRun", run), cast("Engine", engine))
    assert await factory._approved("w1", REPORT) == (None, True)
    assert (people.opened, state.toolbox.gates) == (opened, {})
