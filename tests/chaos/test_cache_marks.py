"""No shape of run pays more for the marks of the prompt cache than it would without any."""

import json

import pytest
from delegating import completes, delegates, delegation
from ground import Ground
from prompt_cache import billed
from provider import MODEL, Play
from teams import APPROVED, stage, team
from teams import task as roles_task

LONG = "Facts that stay. " * 400
SCORED = {
    "dimensions": [{"name": "tone", "score": 0.9, "gap": "warmer"}],
    "findings": [],
    "resolved": [],
}
JUDGED = [{"name": "tone", "evaluator": {"judge": {}}}]


def looks(number: int) -> Play:
    """A call of a tool, each with other arguments."""
    return Play(text=f"step {number}", calls=[("effect.again", {"word": f"w{number}"})])


def answers(body: dict[str, object], number: int) -> list[Play]:
    """A verdict where one is asked for, else a text that is another each time."""
    told = json.dumps(body.get("output_config", {}))
    if '"delegations"' in told:
        decision = delegates("w1") if number < 2 else completes()
        return [Play(text=json.dumps(decision["json"]))]
    if "requirements_met" in told:
        return [Play(text=json.dumps(APPROVED))]
    return [Play(text=json.dumps(SCORED) if "dimensions" in told else f"Text {number}.")]


async def body_count(served: Ground, **spec: object) -> list[dict[str, object]]:
    """What the provider got for a run that ended well."""
    run = await served.start(context={"facts": LONG}, recall=False, **spec)
    # The invariants of one run do not add up a tree.
    is_tree = spec["kind"] == "delegation"
    result = await (served.site.gateway.result(run) if is_tree else served.check(run))
    assert result.outcome in {"accepted", "best_effort"}, result
    return served.provider.bodies


@pytest.mark.parametrize(
    ("spec", "saves"),
    [
        pytest.param({"kind": "agent"}, True, id="agent with tools"),
        pytest.param(
            {"kind": "agent", "agent": {"max_iterations": 3}}, True, id="agent at its last turn"
        ),
        pytest.param(
            {"kind": "agent", "tools": {"access": "minimal"}}, False, id="agent without tools"
        ),
        pytest.param(
            {"kind": "refine", "rubric": JUDGED, "refine": {"plan": "off"}},
            False,
            id="single draft and judge",
        ),
        pytest.param(
            {
                "kind": "refine",
                "rubric": JUDGED,
                "refine": {"plan": "off", "min_iterations": 3, "improvement_threshold": None},
            },
            True,
            id="drafts that are sure to follow",
        ),
        pytest.param(
            roles_task(team(stage("coder"), stage("reviewer"))), False, id="roles without tools"
        ),
        pytest.param(
            {"kind": "refine", "rubric": JUDGED, "refine": {"plan": "on", "max_iterations": 1}},
            False,
            id="a plan, a draft and a judge",
        ),
        pytest.param(delegation(), False, id="a manager and its worker"),
    ],
)
async def test_marks_cost_no_shape_of_run_anything(served: Ground, spec, saves: bool) -> None:
    if spec["kind"] == "agent" and "tools" not in spec:
        served.provider.plays = [looks(number) for number in range(4)] + [Play(text="done")]
    else:
        served.provider.choose = lambda body: answers(body, len(served.provider.bodies))
    bodies = await body_count(served, models={"executor": MODEL}, **spec)
    bill = billed(bodies)
    assert bill.marked <= bill.plain
    assert (bill.marked < bill.plain * 0.9) is saves
    if not saves:
        assert "cache_control" not in json.dumps(bodies)
