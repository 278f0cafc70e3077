"""A stage whose loop cannot be started: what its run ends as, and who hears what was said."""

from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio import workflow

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.agent.state import AgentInput
from perdure.domain.budget.accounting import Budget, BudgetLimits, LimitReached
from perdure.domain.roles.state import RoleState
from perdure.domain.run.control import Control
from perdure.domain.run.spec import LoopInput, Placement
from perdure.domain.turns.guidance import PendingInput
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.child_runs import ChildRuns, ChildSpec, NotStarted
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

    def order(self, _: object) -> ChildSpec:
        return ORDER

    async def run_children(self, _: object) -> list[NotStarted]:
        return [self.end]

    async def ask_for_budget(self, _: object) -> bool:
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
        nested._order = self.order
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


def no_goal(run: str, site: Placement, limits: BudgetLimits) -> LoopInput:
    return AgentInput(run=run, site=site, spec=AgentSpec(kind="agent", goal="---", budget=limits))


def test_a_child_that_cannot_be_told_its_task_is_not_started() -> None:
    state = SimpleNamespace(
        budget=Budget(limits=BudgetLimits(tokens=1_000_000)),
        children=(),
        children_started=0,
        below={},
        control=Control(),
        files_to_read=lambda folder: (folder, None),
    )
    children: Any = object.__new__(ChildRuns)
    children.limits = SimpleNamespace(close_budget_question=lambda: None)
    children.run = SimpleNamespace(
        id="run",
        wall_time=0.0,
        state=state,
        site=Placement.model_construct(root=None, folder=None),
        record_event=lambda *_, **__: None,
    )
    order = ChildSpec(name="w1", kind="agent", goal="---", make=no_goal)
    end = children._reserve_child(order, siblings=1)
    assert isinstance(end, NotStarted)
    assert "could not be started" in end.why
    assert not state.budget.reserved
    assert [child.state for child in state.children] == ["ended"]


class WithoutGoal(Played):
    """A stage whose loop would get a text as its goal of which people see nothing."""

    def order(self, _: object) -> ChildSpec:
        return ChildSpec(
            name="w1", kind="agent", goal=AgentSpec(kind="agent", goal="---").goal, make=no_goal
        )


async def test_a_stage_whose_loop_has_no_goal_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    played = WithoutGoal(NotStarted(ORDER, ""), raised=False, ending=None)
    await played.run(monkeypatch)
    assert played.ended == ["failed"]
