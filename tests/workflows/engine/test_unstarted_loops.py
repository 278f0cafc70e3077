"""A stage whose loop cannot be started: what its run ends as, and who hears what was said."""

from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio import workflow

from perdure.domain.budget.envelope import LimitReached
from perdure.domain.roles.state import RoleState
from perdure.domain.run.control import Control
from perdure.domain.turns.guidance import PendingInput
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.child_runs import ChildSpec, NotStarted
from perdure.workflows.role_parts.nested_loops import NestedLoops

ORDER = cast(ChildSpec, object())
SPENT = LimitReached(dimension="tokens", spent=Decimal(9), limit=Decimal(9))
SAID = [PendingInput(text="first", by="ada")]
STOPPED = Ending(outcome="stopped", reason="stopped")


class Played:
    """A loop of roles at a stage whose child run is refused so."""

    def __init__(self, end: NotStarted, *, raised: bool, ending: Ending | None) -> None:
        self.end = end
        self.raised = raised
        self.ending = ending
        self.ended: list[str] = []
        self.state = RoleState.model_construct(control=Control(inputs=SAID), notes=[], cut=None)

    async def run_children(self, _: object) -> list[NotStarted]:
        return [self.end]

    async def budget_raised(self, _: object) -> bool:
        return self.raised

    async def end_stage(self, _role: object, status: str, **_: object) -> None:
        self.ended.append(status)

    async def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(workflow, "patched", lambda _: True)
        nested: Any = object.__new__(NestedLoops)
        nested.run = SimpleNamespace(state=self.state, ending=lambda: self.ending)
        nested.children = nested.limits = self
        nested.stages = SimpleNamespace(
            bind_stage=lambda _: None, note_stage=lambda _: None, end_stage=self.end_stage
        )
        nested._order = lambda _: ORDER
        await nested._run_nested(SimpleNamespace(name="build"))


@pytest.mark.parametrize(
    ("spent", "raised", "ending", "status", "outcome"),
    [
        (SPENT, False, None, ["cut"], "out_of_budget"),
        (SPENT, True, None, [], None),
        (SPENT, False, STOPPED, ["cut"], "stopped"),
        (None, False, None, ["failed"], None),
    ],
    ids=["spent", "raised by a person", "stopped", "too deep"],
)
async def test_a_loop_that_cannot_start_fails_its_stage_unless_the_budget_is_spent(
    spent: LimitReached | None,
    raised: bool,
    ending: Ending | None,
    status: list[str],
    outcome: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = Played(NotStarted(ORDER, "no budget", spent), raised=raised, ending=ending)
    await played.run(monkeypatch)
    assert played.ended == status
    assert (played.state.cut.outcome if played.state.cut else None) == outcome
    assert played.state.control.inputs == SAID
