"""How a role loop ends: each kind of condition on a real server, alone and joined."""

import pytest
from installation import Installation
from refining import prompt_of
from teams import APPROVED, PAIR, REVIEWED, asks, rejected, says, script, stage, task, team


@pytest.mark.parametrize(
    ("condition", "settings", "replies", "ending", "iterations"),
    [
        pytest.param(
            {**REVIEWED, "max_review_rounds": 2},
            {},
            [says("reviewer", rejected("a")), says("reviewer", rejected("b"))],
            ("best_effort", "max_iterations"),
            2,
            id="rounds used up",
        ),
        pytest.param(
            {**REVIEWED, "max_review_rounds": 5},
            {"max_iterations": 1},
            [says("reviewer", rejected("a"))],
            ("best_effort", "max_iterations"),
            1,
            id="the run's own limit",
        ),
        pytest.param(
            {"type": "goal_bound", "max_iterations": 2},
            {},
            [
                says("reviewer", "looked", times=2),
                says("evaluator", {"achieved": False, "rationale": "no"}),
                says("evaluator", {"achieved": True, "rationale": "yes"}),
            ],
            ("accepted", "goal_achieved"),
            2,
            id="goal achieved in the last round",
        ),
        pytest.param(
            {"type": "goal_bound", "max_iterations": 2},
            {},
            [
                says("reviewer", "looked", times=2),
                says("evaluator", "Who knows?"),
                says("evaluator", "NOT_ACHIEVED"),
                says("evaluator", "Not achieved: the tests are missing."),
            ],
            ("best_effort", "max_iterations"),
            2,
            id="goal unclear, then not achieved",
        ),
        pytest.param(
            {"type": "iteration_bound", "iterations": 2},
            {},
            [says("reviewer", "looked", times=2)],
            ("best_effort", "max_iterations"),
            2,
            id="so many iterations",
        ),
        pytest.param(
            {"type": "max_iterations", "limit": 1},
            {},
            [says("reviewer", "looked")],
            ("best_effort", "max_iterations"),
            1,
            id="the other word for it",
        ),
        pytest.param(
            {"type": "repeated_output"},
            {},
            [says("reviewer", "looked once"), says("reviewer", "looked", times=9)],
            ("best_effort", "repeated_output"),
            3,
            id="the same output again",
        ),
        pytest.param(
            {
                "type": "combined",
                "operator": "and",
                "conditions": [
                    {**REVIEWED, "max_review_rounds": 4},
                    {"type": "iteration_bound", "iterations": 2},
                ],
            },
            {},
            [says("reviewer", APPROVED), says("reviewer", APPROVED)],
            ("accepted", "approved"),
            2,
            id="approved, and so many iterations",
        ),
        pytest.param(
            {
                "type": "combined",
                "operator": "or",
                "conditions": [{"type": "iteration_bound", "iterations": 1}, REVIEWED],
            },
            {},
            [says("reviewer", APPROVED)],
            ("accepted", "approved"),
            1,
            id="success before a limit that comes first in the list",
        ),
        pytest.param(
            REVIEWED,
            {},
            [says("reviewer", "I looked at all of it."), says("reviewer", APPROVED)],
            ("accepted", "approved"),
            1,
            id="unclear, approved when asked again",
        ),
        pytest.param(
            {**REVIEWED, "max_review_rounds": 2},
            {},
            [
                says("reviewer", "I looked at all of it."),
                says("reviewer", "As I said."),
                says("reviewer", "LGTM"),
            ],
            ("accepted", "approved"),
            2,
            id="twice unclear continues",
        ),
    ],
)
async def test_each_condition_ends_the_loop(
    site: Installation,
    condition: dict[str, object],
    settings: dict[str, object],
    replies: list[dict[str, object]],
    ending: tuple[str, str],
    iterations: int,
) -> None:
    spec = task(team(*PAIR, condition=condition), roles=settings)
    result = await site.run(spec, script([says("coder", "draft", times=9), *replies]))
    assert (result.outcome, result.reason) == ending
    assert result.iteration_count == iterations
    assert result.output in {"draft", "looked"}


@pytest.mark.long
async def test_a_time_limit_ends_a_long_stage(site: Installation) -> None:
    spec = task(team(*PAIR, condition={"type": "time_bound", "seconds": 1.5}))
    replies = [says("coder", "draft"), says("reviewer", "slow", delay_s=60)]
    result = await site.run(spec, script(replies))
    assert (result.outcome, result.reason) == ("deadline", "wall_time")
    assert result.spend.wall_time_s < 20
    assert result.output in {"draft", "looked"}
    assert result.partial
    (record,) = await site.records(result.id)
    assert [stage.status for stage in record.stages] == ["completed", "cut"]


async def test_a_limit_on_active_time_ends_a_long_stage(site: Installation) -> None:
    spec = task(team(*PAIR, condition={"type": "timeout", "seconds": 1}))
    replies = [says("coder", "draft"), says("reviewer", "slow", delay_s=600)]
    result = await site.run(spec, script(replies))
    assert (result.outcome, result.reason) == ("deadline", "active_time")
    assert result.output == "draft"
    assert result.spend.active_time_s >= 1
    assert [stage.status for stage in result.iterations[0].stages] == ["completed", "cut"]


async def test_a_limit_on_active_time_ends_a_slow_goal_judge(site: Installation) -> None:
    verdict = {"achieved": True, "rationale": "yes"}
    replies = [says("coder", "draft"), says("reviewer", "looked")]
    judged = team(*PAIR, condition={"type": "goal_bound", "max_iterations": 2})
    spec = task(judged, budget={"active_time": 1.5})
    result = await site.run(spec, script([*replies, says("evaluator", verdict, delay_s=600)]))
    assert (result.outcome, result.reason) == ("deadline", "active_time")
    assert result.output in {"draft", "looked"}
    (record,) = await site.records(result.id)
    assert record.decision == "abort_timeout"
    assert [stage.status for stage in record.stages] == ["completed", "completed"]


async def test_a_number_that_a_tool_gave_ends_the_loop(site: Installation) -> None:
    counts = {"type": "tool_bound", "tool": "fs.read", "operator": "==", "value": 0}
    replies: list[dict[str, object]] = []
    for name, text in (("first", "3 failed"), ("second", "0 failed")):
        write = {"path": f"{name}.txt", "content": text, "expected_hash": "absent"}
        replies += [
            asks("coder", "fs.write", write),
            asks("coder", "fs.read", {"path": f"{name}.txt"}),
            says("coder", name),
        ]
    coding = team(stage("coder", access="full"), condition=counts)
    result = await site.run(task(coding), script(replies))
    assert (result.outcome, result.reason, result.output) == ("accepted", "completed", "second")
    assert result.iteration_count == 2


async def test_the_goal_judges_reason_reaches_the_next_iteration_and_the_record(
    site: Installation,
) -> None:
    spec = task(team(*PAIR, condition={"type": "goal_bound", "max_iterations": 2}))
    replies = [
        says("coder", "draft", times=9),
        says("reviewer", "looked", times=9),
        says("evaluator", "NOT_ACHIEVED: two of the tests fail."),
        says("evaluator", {"achieved": True, "rationale": "all pass"}),
    ]
    result = await site.run(spec, script(replies))
    assert (result.outcome, result.reason) == ("accepted", "goal_achieved")
    first, second = await site.records(result.id)
    assert first.verdicts[0].rationale == "two of the tests fail."
    told = await prompt_of(site, second.stages[0].transcript)
    assert "two of the tests fail." in told[0][1]
