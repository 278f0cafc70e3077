"""What grows with a run does not travel whole through continue-as-new."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.roles.state import SEEN_KEPT, RoleState
from perdure.domain.run.control import Control
from perdure.domain.run.gate_lifecycle import open_gate
from perdure.workflows.engine.continue_as_new import ContinueAsNew
from perdure.workflows.engine.resets import Resets
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.stored_terms import StoredTerms

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def test_notices_of_gates_that_are_gone_and_old_outputs_stay_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control = Control(gates_opened=4)
    open_gate(control, kind="question", prompt="Tea?", now=NOW)
    outputs = tuple(f"output {number}" for number in range(SEEN_KEPT + 5))
    told = {f"g{number}": 3 for number in range(1, 5)} | {"g5": 1}
    state = RoleState(
        started_at=NOW,
        budget=Budget(limits=BudgetLimits()),
        control=control,
        told=told,
        seen=outputs,
        iteration=7,
    )
    run = SimpleNamespace(state=state, spec=SimpleNamespace(upgrade="pinned"), memo=lambda: None)
    run.next_input = lambda: run.state
    given: list[RoleState] = []

    async def at_once(*_: object) -> None:
        pass

    monkeypatch.setattr(ContinueAsNew, "due", lambda _: True)
    monkeypatch.setattr(workflow, "wait_condition", at_once)
    monkeypatch.setattr(workflow, "continue_as_new", lambda state, **_: given.append(state))
    terms, resets = SimpleNamespace(wait=at_once), SimpleNamespace(pending=False)
    await ContinueAsNew(
        cast("AnyRun", run), cast("StoredTerms", terms), cast("Resets", resets)
    ).continue_if_due()

    (carried,) = given
    assert carried.told == {"g5": 1}
    assert carried.seen == outputs[5:]
    assert (carried.iteration, carried.rolls, carried.control) == (7, 1, control)
