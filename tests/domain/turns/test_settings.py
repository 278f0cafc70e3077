"""What a task leaves open is filled from its profile, field by field."""

import pytest
from pydantic import ValidationError

from perdure.domain.agent.result import agent_budget
from perdure.domain.agent.spec import AgentSpec
from perdure.domain.budget.accounting import BudgetLimits
from perdure.domain.delegation.decisions import Envelope
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.worker_specs import worker_spec
from perdure.domain.turns.settings import (
    FALLBACK_TEXT,
    NUDGE_PROMPT,
    AgentSettings,
    ToolLoopLevels,
    ToolsSpec,
    resolve,
)


def test_the_profile_agent():
    turns = resolve(AgentSettings())
    assert (turns.max_iterations, turns.max_illegal_strikes, turns.max_tool_repeat) == (50, 2, 3)
    assert (turns.output_token_ceiling, turns.active_time, turns.tool_timeout) == (None, None, None)
    assert (turns.defer_mixed_text, turns.nudge_on_empty, turns.parallel_tools) == (True,) * 3
    assert (turns.nudge_prompt, turns.fallback_text) == (NUDGE_PROMPT, FALLBACK_TEXT)
    assert turns.tool_loop == ToolLoopLevels(warning=10, critical=20, circuit_breaker=30)


def test_the_profile_delegate():
    turns = resolve(AgentSettings(profile="delegate"))
    assert (turns.max_iterations, turns.output_token_ceiling) == (15, 25_000)
    assert (turns.active_time, turns.tool_timeout) == (90, 30)
    assert (turns.defer_mixed_text, turns.nudge_on_empty) == (False, False)


@pytest.mark.parametrize("profile", ["agent", "delegate"])
def test_null_takes_the_profile(profile):
    given = AgentSettings(
        profile=profile,
        max_iterations=None,
        max_illegal_strikes=None,
        max_tool_repeat=None,
        output_token_ceiling=None,
    )
    assert resolve(given) == resolve(AgentSettings(profile=profile))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_iterations", 7),
        ("max_illegal_strikes", 5),
        ("max_tool_repeat", 1),
        ("output_token_ceiling", 99),
        ("defer_mixed_text", True),
        ("nudge_on_empty", True),
        ("nudge_prompt", "Say something."),
        ("fallback_text", ""),
        ("parallel_tools", False),
        ("tool_loop", ToolLoopLevels(warning=1)),
    ],
)
def test_a_given_field_wins_and_leaves_the_others(field, value):
    base = resolve(AgentSettings(profile="delegate"))
    turns = resolve(AgentSettings(profile="delegate", **{field: value}))
    assert turns == base.model_copy(update={field: value})


@pytest.mark.parametrize(
    ("of_budget", "of_agent", "limit"),
    [
        (None, None, None),
        (100, None, 100),
        (None, 50, 50),
        (100, 50, 50),
        (50, 100, 50),
        (0, 50, 50),
        (0, None, None),
    ],
)
def test_of_two_limits_on_output_the_lower_holds(of_budget, of_agent, limit):
    spec = AgentSpec.model_validate(
        {
            "kind": "agent",
            "goal": "g",
            "budget": {"output_tokens": of_budget},
            "agent": {"output_token_ceiling": of_agent},
        }
    )
    assert agent_budget(spec, resolve(spec.agent)).limits.output_tokens == limit


@pytest.mark.parametrize(("given", "limit"), [({}, 90), ({"active_time": 20}, 20)], ids=str)
def test_a_delegate_works_ninety_seconds_at_most(given, limit):
    spec = AgentSpec.model_validate(
        {"kind": "agent", "goal": "g", "budget": given, "agent": {"profile": "delegate"}}
    )
    assert agent_budget(spec, resolve(spec.agent)).limits.active_time == limit


@pytest.mark.parametrize(
    ("given", "of_tree", "clocks"),
    [
        ({}, 3_600, (90, 30)),
        ({"active_time": 600}, 3_600, (600, 30)),
        ({"tool_timeout": 120}, 3_600, (90, 120)),
        ({"active_time": 600, "tool_timeout": 5}, 3_600, (600, 5)),
        ({"active_time": 600, "profile": "agent"}, 3_600, (600, 30)),
        ({"active_time": 600}, 200, (200, 30)),
        ({"active_time": None, "tool_timeout": None}, None, (90, 30)),
    ],
    ids=[
        "nothing", "its work", "its tools", "both", "whatever the profile", "the tree has less",
        "null",
    ],
)  # fmt: skip
def test_clocks_of_workers_follow_the_task(given, of_tree, clocks):
    task = DelegationSpec.model_validate({"kind": "delegation", "goal": "g", "agent": given})
    worker = worker_spec(
        Envelope(worker="w", instructions="Do it."),
        task,
        tools=ToolsSpec(),
        limits=BudgetLimits(active_time=of_tree),
    )
    turns = resolve(worker.agent)
    assert (agent_budget(worker, turns).limits.active_time, turns.tool_timeout) == clocks


@pytest.mark.parametrize(
    "field", ["max_iterations", "max_illegal_strikes", "max_tool_repeat", "output_token_ceiling"]
)
def test_a_limit_beyond_any_run_is_refused(field: str) -> None:
    with pytest.raises(ValidationError, match="less than or equal"):
        AgentSettings.model_validate({field: 10**30})
