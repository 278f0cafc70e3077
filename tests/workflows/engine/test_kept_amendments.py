"""What is amended stays asked for until a step has adopted it."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.refine.result import refine_result
from perdure.domain.refine.resume import first_state
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.roles.result import role_result
from perdure.domain.roles.state import RoleState, StageBinding
from perdure.domain.run.control import Control
from perdure.domain.turns.turn import Ending
from perdure.workflows import roles
from perdure.workflows.engine.engine import Engine
from perdure.workflows.refine_parts import amendments
from perdure.workflows.refine_parts.amendments import Amendments
from perdure.workflows.refine_parts.evaluation import EvaluationStage
from perdure.workflows.refine_parts.run import RefineRun
from perdure.workflows.roles import RoleLoop

OAK = [{"name": "oak", "evaluator": {"check": "contains", "all": ["oak"]}}]
ELM = [{"name": "elm", "evaluator": {"check": "contains", "all": ["elm"]}}]

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("meanwhile", "kept"),
    [
        pytest.param({}, ("Name oaks.", OAK), id="nothing else was said"),
        pytest.param({"goal": "Name elms."}, ("Name elms.", OAK), id="another goal"),
        pytest.param({"rubric": ELM}, ("Name oaks.", ELM), id="another rubric"),
    ],
)
async def test_an_amendment_outlives_a_step_that_fails(
    meanwhile: dict[str, object], kept: tuple[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control.model_validate({"goal": "Name oaks.", "rubric": OAK})

    async def fails(*_: object, **__: object) -> None:
        assert (control.goal, control.rubric) == (None, None)
        for name, value in meanwhile.items():
            setattr(control, name, value)

    monkeypatch.setattr(amendments, "reframe", fails)
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    draft = SimpleNamespace(reviewing=False)
    state = SimpleNamespace(control=control, frame="f", draft=draft, kept=None)
    run = SimpleNamespace(
        state=state,
        rubric=Rubric.model_validate(OAK),
        ending=lambda: None,
        frame_part=lambda _: {},
    )
    none = cast("Engine", None), cast("EvaluationStage", None)
    await Amendments(cast("RefineRun", run), *none).adopt()
    assert (control.goal, control.rubric) == kept
    assert state.frame == "f"


@pytest.mark.parametrize(
    ("patched", "meanwhile", "unread"),
    [
        pytest.param(True, None, ("Name oaks.",), id="nothing else was said"),
        pytest.param(True, "Name elms.", ("Name elms.",), id="another goal"),
        pytest.param(False, None, (), id="a run from before"),
    ],
)
async def test_a_goal_that_one_stage_lacks_is_kept_for_the_next_step(
    patched: bool,
    meanwhile: str | None,
    unread: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control = Control(goal="Name oaks.")
    state = RoleState(started_at=NOW, budget=Budget(limits=BudgetLimits()), control=control)
    state.seats = {name: StageBinding(frame=name) for name in ("coder", "reviewer")}

    async def stored(_: object, old: str, *, goal: str, summary: str) -> SimpleNamespace | None:
        assert summary == f"new goal for {old}"
        if old == "coder":
            state.control.goal = meanwhile
            return None
        return SimpleNamespace(frame=f"{old}: {goal}")

    monkeypatch.setattr(roles, "reframe", stored)
    monkeypatch.setattr(workflow, "patched", lambda _: patched)
    loop = SimpleNamespace(run=SimpleNamespace(state=state), engine=None)
    await RoleLoop._adopt_goal(cast(RoleLoop, loop))
    assert [seat.frame for seat in state.seats.values()] == ["coder", "reviewer: Name oaks."]
    ending = Ending(outcome="stopped", reason="stopped")
    result = role_result(
        state, run="r1", ending=ending, explanation=None, wall_time=1.0, tree=None, kept=None
    )
    assert result.unread_input == unread


def test_what_nobody_adopted_is_named_as_unread() -> None:
    spec = RefineSpec.model_validate(
        {"kind": "refine", "goal": "Name trees.", "models": {"executor": "m:m"}, "rubric": OAK}
    )
    state = first_state(spec, at=NOW)
    state.control = Control.model_validate({"goal": "Name elms.", "rubric": ELM})
    result = refine_result(
        state,
        run="r1",
        ending=Ending(outcome="stopped", reason="stopped"),
        explanation=None,
        returned=None,
        met=False,
        wall_time=1.0,
        tree=None,
    )
    assert result.unread_input == ("Name elms.", "rubric: elm")
