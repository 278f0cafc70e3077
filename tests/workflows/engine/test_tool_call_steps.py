"""What the step of a tool call is asked for, in an installation of several hosts."""

from types import SimpleNamespace
from typing import cast

import pytest

from perdure.domain.tools.definitions import ActivityTarget
from perdure.domain.tools.workspaces import HostedFolder
from perdure.domain.turns.settings import ToolsSpec
from perdure.domain.turns.tool_call_rules import PlannedCall, RequestedCall, ToolPolicy
from perdure.domain.turns.turn import TurnState
from perdure.workflows.engine.policies import TurnPolicy
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.tool_call_steps import ToolCallSteps

THEIRS = ActivityTarget(type="charge", queue="theirs")
SPEC = SimpleNamespace(tools=ToolsSpec(generated={"notes.count": "0" * 64}))
ENTRY = PlannedCall(call=RequestedCall(id="c", name="charge", args_hash="h"), verdict="run")


@pytest.mark.parametrize(
    ("target", "root", "stores"),
    [
        pytest.param(None, "/copies/r", True, id="a tool works in the folder of its host"),
        pytest.param(THEIRS, "", False, id="arguments of a foreign activity are read anywhere"),
    ],
)
def test_only_a_tool_of_ours_needs_the_working_folder(
    target: ActivityTarget | None, root: str, *, stores: bool
) -> None:
    terms = ToolPolicy(name="charge", access="write", activity=target)
    state = SimpleNamespace(
        hosted=HostedFolder(queue="host-1"),
        root="/copies/r",
        base_tree="t",
        frame="f",
        terms=[terms],
    )
    run = cast("AnyRun", SimpleNamespace(state=state, iteration=1, spec=SPEC))
    steps = ToolCallSteps(run, cast("TurnPolicy", SimpleNamespace(stage_name="")))
    asked = steps._request(TurnState(), ENTRY, timeout_s=1.0)
    assert (asked.root, asked.takes_snapshot) == (root, stores)


@pytest.mark.parametrize(("name", "made"), [("notes.count", True), ("charge", False)])
def test_the_step_knows_a_generated_tool(name: str, *, made: bool) -> None:
    entry = PlannedCall(call=RequestedCall(id="c", name=name, args_hash="h"), verdict="run")
    state = SimpleNamespace(hosted=None, frame="f", terms=[ToolPolicy(name=name, access="read")])
    run = cast("AnyRun", SimpleNamespace(state=state, iteration=1, spec=SPEC))
    steps = ToolCallSteps(run, cast("TurnPolicy", SimpleNamespace(stage_name="")))
    assert steps._request(TurnState(), entry, timeout_s=1.0).made is made
