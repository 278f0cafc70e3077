"""Runs of roles and of managers whose histories are kept: verdicts, children, tools, rolls."""

import json
from collections.abc import Mapping

from agent_runs import answer, gate_of
from delegating import completes, decides, delegates, delegation, works
from delegating import script as managed
from drafts import COUNT, TEXT_SCHEMA
from installation import Installation
from kept_clients import CLIENT_SCENES
from kept_scenes import SCENES, Scene
from teams import APPROVED, PAIR, REVIEWED, asks, rejected, says, script, stage, task, team
from waiting import eventually

from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import Answer, Stop
from perdure.domain.run.spec import Timing


async def _gate(site: Installation, run: str) -> Gate:
    await eventually(lambda: gate_of(site, run))
    gate = await gate_of(site, run)
    assert gate is not None
    return gate


async def say_redis(site: Installation, run: str) -> None:
    """Answer the question of a stage."""
    gate = await _gate(site, run)
    await site.gateway.verb(run, Answer(by="t", gate=gate.id, text="Redis"))


async def say_blue(site: Installation, run: str) -> None:
    """Answer the question of a manager."""
    await answer(site, run, await _gate(site, run), "blue")


async def try_again(site: Installation, run: str) -> None:
    """Grant another iteration after so many reworks."""
    gate = await _gate(site, run)
    said = Answer(by="t", gate=gate.id, choice="retry", text="look into lib/", request_id="r")
    await site.gateway.verb(run, said)


async def stop_at_work(site: Installation, run: str) -> None:
    """Stop a manager's run at once, while its worker works."""

    async def at_work() -> bool:
        return bool((await site.status(run)).children)

    await eventually(at_work)
    await site.gateway.verb(run, Stop(by="t", mode="now"))


def plan(*, depends: bool) -> Mapping[str, object]:
    """A manager's plan of two subtasks."""
    second = {"id": "s2", "title": "write", **({"depends_on": ["s1"]} if depends else {})}
    return decides("plan", subtasks=[{"id": "s1", "title": "look"}, second])


REVIEW = {"when": {"role": "critic"}}
DEFECT = {"category": "wrong", "title": "It is not glass.", "fix": "Say steel.", "critical": True}
WANTED = {
    "name": "text.count",
    "code": COUNT.replace("(*, ", "("),
    "schema": TEXT_SCHEMA,
    "examples": [{"arguments": {"text": "a b"}, "result": {"words": 2}}],
}
REPAIRED = {"when": {"role": "repair"}, "json": {"code": COUNT, "schema": json.dumps(TEXT_SCHEMA)}}
ROUNDS = {**REVIEWED, "max_review_rounds": 9}
ROLLING = Timing(heartbeat=2.0, roll_events=25)

TEAM_SCENES: Mapping[str, Scene] = {
    "roles_rework_and_approval": Scene(
        spec=task(),
        script=script(
            [
                says("plan", "the plan", times=2),
                says("coder", "first draft"),
                says("reviewer", rejected("no tests")),
                says("coder", "second draft"),
                says("reviewer", "I am not sure what to make of this."),
                says("reviewer", APPROVED),
            ]
        ),
        ends=("accepted", "approved"),
    ),
    "roles_goal_achieved": Scene(
        spec=task(
            team(
                stage("plan"), stage("coder"), condition={"type": "goal_bound", "max_iterations": 3}
            )
        ),
        script=script(
            [
                says("plan", "the plan", times=2),
                says("coder", "a draft", times=2),
                says("evaluator", {"achieved": False, "rationale": "it does not run"}),
                says("evaluator", {"achieved": True, "rationale": "it runs"}),
            ]
        ),
        ends=("accepted", "goal_achieved"),
    ),
    "roles_question_answered": Scene(
        spec=task(team(*PAIR)),
        script=script(
            [
                says("coder", "NEEDS_CONTEXT: Which cache?"),
                says("coder", "a Redis cache"),
                says("reviewer", APPROVED),
            ]
        ),
        ends=("accepted", "approved"),
        steer=say_redis,
    ),
    "roles_rework_granted": Scene(
        spec=task(team(*PAIR, condition=ROUNDS)),
        script=script(
            [
                says("coder", "draft", times=4),
                says("reviewer", rejected("no tests"), times=3),
                says("reviewer", APPROVED),
            ]
        ),
        ends=("accepted", "approved"),
        steer=try_again,
    ),
    "roles_stage_failed": Scene(
        spec=task(team(*PAIR)),
        script=script([says("coder", "draft"), {"error": {"status": 400}}]),
        ends=("failed", "stage_failed"),
    ),
    "roles_files_rolled": Scene(
        spec=task(team(stage("coder", access="full"), stage("reviewer"))),
        script=script(
            [
                asks(
                    "coder", "fs.write", {"path": "a.md", "content": "a", "expected_hash": "absent"}
                ),
                says("coder", "wrote a"),
                says("reviewer", rejected("no b")),
                asks(
                    "coder", "fs.write", {"path": "b.md", "content": "b", "expected_hash": "absent"}
                ),
                says("coder", "wrote b"),
                says("reviewer", APPROVED),
            ]
        ),
        ends=("accepted", "approved"),
        timing=ROLLING,
    ),
    "delegation_planned_rolled": Scene(
        spec=delegation(),
        script=managed(
            plan(depends=True),
            delegates("w1", subtask="s1"),
            works("w1"),
            delegates("w2", "w3", subtask="s2"),
            works("w2", "light", 0.8),
            works("w3", "cold", 0.9),
            completes(),
        ),
        ends=("accepted", "completed"),
        timing=ROLLING,
    ),
    "delegation_sub_manager": Scene(
        spec=delegation(),
        script=managed(
            delegates("w1", by="m1"),
            works("w1"),
            completes("steel", by="m1"),
            delegates("m1", sub_manager=True),
            completes(),
        ),
        ends=("accepted", "completed"),
    ),
    "delegation_repaired": Scene(
        spec=delegation(delegation={"critique": {"enabled": True}}),
        script=managed(
            delegates("w1", acceptance="It names the material."),
            works("w1", "glass"),
            {**REVIEW, "json": {"score": 0.3, "defects": [DEFECT]}},
            works("w1_repair", "steel", 0.9),
            {**REVIEW, "json": {"score": 0.9, "defects": []}},
            completes(),
        ),
        ends=("accepted", "completed"),
    ),
    "delegation_tool_made": Scene(
        spec=delegation(tools={"access": "readonly"}),
        script=managed(
            delegates("w1"),
            works("w1", "by hand", tools_needed=[WANTED]),
            REPAIRED,
            delegates("w2"),
            works("w2", "3 words"),
            completes(),
        ),
        ends=("accepted", "completed"),
    ),
    "delegation_question_answered": Scene(
        spec=delegation(),
        script=managed(
            decides("escalate", question="Which colour?", choices=["red", "blue"]),
            completes("A blue bottle."),
        ),
        ends=("accepted", "completed"),
        steer=say_blue,
    ),
    "delegation_stopped_now": Scene(
        spec=delegation(),
        script=managed(
            delegates("w1"), works("w1"), delegates("w2"), works("w2", "slow", delay_s=60)
        ),
        ends=("stopped", "stopped"),
        steer=stop_at_work,
    ),
}
ALL_SCENES: Mapping[str, Scene] = {**SCENES, **TEAM_SCENES, **CLIENT_SCENES}
