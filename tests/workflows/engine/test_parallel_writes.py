"""What calls that ran side by side wrote, where the host of the folder is lost under them."""

from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.budget.accounting import Budget, BudgetLimits
from perdure.domain.run.activity_messages import ToolCallReport
from perdure.domain.tools.workspaces import HostedFolder
from perdure.domain.turns.settings import Turns
from perdure.domain.turns.tool_call_rules import PlannedCall, RequestedCall
from perdure.domain.turns.turn import Batch, TurnState
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.policies import TurnPolicy
from perdure.workflows.engine.run import AnyRun, Run
from perdure.workflows.engine.step_runner import Completed, StepFailed
from perdure.workflows.engine.tool_calls import ToolCalls

NOT_TAKEN = StepFailed("s2", "not_taken", "nobody took it")
WROTE = Completed(ToolCallReport(tree="with a", tree_at=9_000))
WROTE_ELSEWHERE = Completed(ToolCallReport(tree="with a and b", tree_at=7))


def _loop(moved_with: list[str | None]) -> ToolCalls:
    """Calls of which the first ends, and the second is taken by the next host alone."""
    state = SimpleNamespace(
        budget=Budget(limits=BudgetLimits()),
        control=SimpleNamespace(stop=None),
        hosted=HostedFolder(queue="host 1", tree="opened"),
        terms=[],
    )
    run = SimpleNamespace(
        state=state,
        demanded_ending=lambda: None,
        ending=lambda: None,
        set_step=lambda _: None,
        record_event=lambda *_, **__: None,
        apply_budget=lambda _: None,
    )
    run.note_folder_tree = lambda tree: Run.note_folder_tree(cast("AnyRun", run), tree)

    async def goes_on_after(*_: object) -> bool:
        moved_with.append(state.hosted.tree)
        state.hosted = HostedFolder(queue="host 2", tree=state.hosted.tree)
        return True

    async def at_once() -> None:
        pass

    engine = SimpleNamespace(
        run=run,
        steps=None,
        people=None,
        retries=SimpleNamespace(prepare_retry=goes_on_after, forget_losses=lambda _: None),
        life=SimpleNamespace(wait_or_continue_as_new=at_once),
    )
    return ToolCalls(cast("Engine", engine), cast("TurnPolicy", SimpleNamespace()))


async def test_a_folder_that_moves_takes_along_what_was_written_beside_the_lost_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    moved_with: list[str | None] = []
    tools = _loop(moved_with)
    ends = {"a": [WROTE], "b": [NOT_TAKEN, WROTE_ELSEWHERE]}

    async def finished(entry: PlannedCall, *_: object) -> Completed[ToolCallReport] | StepFailed:
        return ends[entry.call.id].pop(0)

    def start_call(*_: object) -> tuple[str, None]:
        return "s1", None

    tools._finished = finished  # type: ignore[method-assign]
    tools.calls.start_call = start_call  # type: ignore[method-assign,assignment]
    calls = [RequestedCall(id=name, name="fs.write", args_hash=name) for name in ends]
    state = TurnState(batch=Batch(planned=[PlannedCall(call=one, verdict="run") for one in calls]))
    await tools._run_ready(state, Turns())
    assert moved_with == ["with a"]
    # Whatever the clocks of the two hosts say.
    hosted = tools.run.state.hosted
    assert hosted is not None
    assert hosted.tree == "with a and b"
