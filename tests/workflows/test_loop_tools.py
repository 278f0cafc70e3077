"""Agents that start and steer loops: only those asked to, only what they started, within bounds."""

import json
from decimal import Decimal

import pytest
import yaml
from agent_runs import call, calls, results, script, task
from holding import HELD, Holding
from installation import Installation
from loop_scripts import APPROVED, PAIR, STAGES
from pydantic import JsonValue
from waiting import eventually

from perdure.adapters.tools.host import LocalToolHost
from perdure.adapters.tools.loop_tools import LoopTools
from perdure.composition.client_services import loops_of
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.specs import RUN_SPEC
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation
from perdure.domain.tools.selection import LOOP_TOOLS
from perdure.gateway.control import STALE_NOTE

DONE = {"text": "Done."}
ASKING = {"access": "full", "allow": ["loop_*"]}
TOPIC: JsonValue = {"topic": "rust"}


@pytest.fixture
async def looped(site: Installation) -> Installation:
    """An installation that has the loop `pair`."""
    (site.home / "loops").mkdir()
    (site.home / "loops" / "pair.yaml").write_text(yaml.safe_dump(PAIR))
    return site


def played(*own):
    """What the agent says, and what the roles of `pair` say: they have the agent's models."""
    return {
        "replies": [
            *({"when": {"role": "executor"}, **reply} for reply in own),
            {"when": {"role": "writer"}, "text": "Rust is iron oxide.", "times": 9},
            {"when": {"role": "reviewer"}, "text": APPROVED, "times": 9},
        ]
    }


async def started_by(site, run):
    """The runs that a run started, with what they were told."""
    found = []
    for row in await site.parts.stores.records.find_runs(prefix="roles-"):
        spec = RUN_SPEC.validate_json(await site.parts.stores.blobs.get(row.spec))
        if spec.metadata.model_dump().get("started_by") == run:
            found.append((row.id, spec))
    return found


def start():
    return call("loop_start", definition="pair", goal="say", parameters=TOPIC)


async def test_an_orchestrator_starts_a_loop_and_sees_it_end(looped: Installation) -> None:
    run = await looped.start(
        task(tools=ASKING, budget={"depth": 2, "cost_usd": 0.5}),
        played(calls(call("loop_definitions")), calls(start()), calls(call("loop_list")), DONE),
    )
    result = await looped.gateway.result(run)
    assert result.outcome == "accepted"
    definitions, started, _ = await results(looped, result)
    assert "pair" in [one["name"] for one in json.loads(definitions.text)]
    assert started.text.startswith("started roles-")
    [(below, spec)] = await started_by(looped, run)
    assert isinstance(spec, RolesSpec)
    assert (spec.budget.depth, spec.budget.cost_usd) == (1, Decimal("0.175"))
    assert spec.metadata.model_dump()["root_run"] == run
    assert (await looped.gateway.result(below)).outcome == "accepted"


@pytest.mark.long
async def test_a_status_may_wait_for_the_end(looped: Installation) -> None:
    run = await looped.start(task(tools=ASKING), played(calls(start()), DONE))
    await looped.gateway.result(run)
    [(below, _)] = await started_by(looped, run)
    look = calls(call("loop_status", id=below, wait_s=20))
    result = await looped.run(task(tools=ASKING), played(look, DONE))
    [seen] = await results(looped, result)
    assert json.loads(seen.text)["outcome"] == "accepted"


@pytest.mark.parametrize(
    "tools",
    [{"access": "full"}, {"access": "full", "allow": ["*"]}, {"access": "full", "allow": ["fs.*"]}],
    ids=["everything", "a star", "others"],
)
async def test_a_run_that_does_not_name_them_cannot_call_them(looped, tools) -> None:
    result = await looped.run(task(tools=tools), script(calls(start()), calls(start()), DONE))
    assert (result.outcome, result.reason) == ("tool_misuse", "illegal_tool")
    assert await started_by(looped, result.id) == []


async def test_no_stage_of_a_loop_can_call_them(looped: Installation) -> None:
    stage = {**STAGES[0], "access": "full", "tools": ["loop_*", "fs.*"]}
    reaching = {**PAIR, "name": "reaching", "roles": [stage, STAGES[1]]}
    (looped.home / "loops" / "reaching.yaml").write_text(yaml.safe_dump(reaching))
    replies = {
        "replies": [
            {"when": {"role": "writer"}, "tool_calls": [start()]},
            {"when": {"role": "writer"}, "text": "I could not start one.", "times": 9},
            {"when": {"role": "reviewer"}, "text": APPROVED, "times": 9},
        ]
    }
    roles = {"definition": "reaching", "parameters": TOPIC}
    run = await looped.start({"kind": "roles", "goal": "reach", "roles": roles}, replies)
    await looped.gateway.result(run)
    found = await looped.parts.stores.records.find_runs(prefix="roles-")
    assert [row.id for row in found] == [run]


async def test_a_run_of_roles_that_asks_for_them_is_refused_at_once(looped: Installation) -> None:
    roles = {"kind": "roles", "goal": "x", "roles": {"definition": "harness"}}
    with pytest.raises(InvalidInput, match="for runs of kind agent"):
        await looped.start({**roles, "tools": ASKING}, script(DONE))


async def test_without_depth_nothing_is_started(looped: Installation) -> None:
    result = await looped.run(task(tools=ASKING, budget={"depth": 0}), played(calls(start()), DONE))
    [refused] = await results(looped, result)
    assert (refused.outcome, "budget.depth is 0" in refused.text) == ("error", True)
    assert await started_by(looped, result.id) == []


@pytest.mark.long
async def test_a_run_steers_the_loops_that_it_started_and_no_others(looped: Installation) -> None:
    slow = {"replies": [{"text": "slow", "delay_s": 60, "times": 9}]}
    roles = {"definition": "pair", "parameters": TOPIC}
    foreign = await looped.start({"kind": "roles", "goal": "mine", "roles": roles}, slow)

    async def runs():
        return (await looped.status(foreign)).phase == "staging"

    await eventually(runs)
    result = await looped.run(
        task(tools=ASKING),
        played(
            calls(call("loop_control", action="stop", id=foreign)),
            calls(call("loop_control", action="stop", id="all")),
            calls(call("loop_control", action="answer", id=foreign)),
            DONE,
        ),
    )
    one, every, answer = await results(looped, result)
    assert "was not started by this run" in one.text
    assert json.loads(every.text) == {"action": "stop", "note": STALE_NOTE}
    assert "people alone answer gates" in answer.text
    assert (await looped.status(foreign)).lifecycle == "running"
    await looped.handle(foreign).terminate()


@pytest.mark.parametrize("name", LOOP_TOOLS)
async def test_a_grant_that_does_not_orchestrate_is_refused_where_the_tool_runs(name) -> None:
    host = LocalToolHost(LoopTools().all())
    envelope = ToolInvocation(run="r", call_id="c", idempotency_key="k", name=name, arguments={})
    grant = ToolGrant(root="/", level="full", writable=True, allowed=LOOP_TOOLS)
    given = await host.call(envelope, grant)
    assert (given.outcome, given.code) == ("denied", "denied")


@pytest.mark.long
async def test_a_repeated_start_is_one_run(looped: Installation) -> None:
    run = await looped.start(task(tools=ASKING), played(DONE))
    await looped.gateway.result(run)
    loops = LoopTools()
    loops.serve(loops_of(looped.parts))
    host = LocalToolHost(loops.all())
    envelope = ToolInvocation(
        run=run,
        call_id="c",
        idempotency_key=f"{run}/1/c",
        name="loop_start",
        arguments={"definition": "pair", "goal": "say", "parameters": TOPIC},
    )
    grant = ToolGrant(root="/", level="full", allowed=LOOP_TOOLS, orchestrates=True)
    first, second = [await host.call(envelope, grant) for _ in range(2)]
    assert first.outcome == "ok", first.text
    assert first.text == second.text
    await looped.gateway.result(first.text.split()[1])


@pytest.mark.long
async def test_loops_are_paid_from_the_envelope_of_the_run_that_starts_them(
    looped: Installation, holding: Holding
) -> None:
    # None of them ends before the last has begun: it would give back what it did not spend.
    held = {"when": {"role": "writer"}, "text": "Rust is iron oxide.", "delay_s": HELD, "times": 9}
    many = calls(
        *(
            call("loop_start", definition="pair", goal=f"say {n}", parameters=TOPIC)
            for n in range(5)
        )
    )
    run = await looped.start(
        task(tools=ASKING, budget={"depth": 2, "cost_usd": 0.2}), played(many, DONE, held)
    )
    result = await looped.gateway.result(run)
    assert result.outcome == "accepted"
    below = await started_by(looped, run)
    limits = [spec.budget.cost_usd for _, spec in below]
    assert len(limits) == 5
    assert all(limits) and sum(limit for limit in limits if limit) <= Decimal("0.2")
    holding.release()
    for one, _ in below:
        assert (await looped.gateway.result(one)).outcome == "accepted"


@pytest.mark.long
async def test_what_loops_hold_is_not_spent_by_the_run_that_started_them(
    looped: Installation,
) -> None:
    dear = {"when": {"role": "executor"}, "usage": {"input_tokens": 15_000, "output_tokens": 100}}
    looks = {**calls(call("loop_list")), **dear, "times": 9}
    slow = {"when": {"role": "writer"}, "text": "Rust is iron oxide.", "delay_s": 60}
    replies = {"replies": [{**calls(start()), **dear}, looks, slow]}
    run = await looped.start(task(tools=ASKING, budget={"depth": 2, "tokens": 100_000}), replies)
    result = await looped.gateway.result(run)
    [(below, spec)] = await started_by(looped, run)
    assert (result.outcome, result.reason) == ("out_of_budget", "tokens")
    assert spec.budget.tokens
    assert result.spend.tokens + spec.budget.tokens <= 100_000
    await looped.handle(below).terminate()
