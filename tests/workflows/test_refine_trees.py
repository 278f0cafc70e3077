"""Custom termination trees on a real server: conditions that look at clocks, tools, the judge."""

from datetime import UTC, datetime, timedelta

import pytest
from installation import Installation
from refining import TONE, WORDS_CHECK, draft, drafts, judged, open_gate, spec, verdict, written

from perdure.domain.foundation.errors import InvalidInput


def moment(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


@pytest.mark.parametrize(
    ("tree", "ended", "iterations"),
    [
        pytest.param(
            {"type": "time_bound", "seconds": 0.001}, ("deadline", "wall_time"), 0, id="seconds"
        ),
        pytest.param(
            {"type": "timeout", "duration_ms": 1, "wall": True},
            ("deadline", "wall_time"),
            0,
            id="milliseconds by the clock",
        ),
        pytest.param(
            {"type": "iteration_bound", "iterations": 2},
            ("best_effort", "max_iterations"),
            2,
            id="iterations",
        ),
        pytest.param(
            {"type": "combined", "operator": "or", "conditions": [
                {"type": "time_bound", "until": moment(3_600)},
                {"type": "degradation", "window": 2}]},
            ("regressed", "degradation"), 4, id="a moment to come, a fall",
        ),
        pytest.param({"type": "manual"}, ("best_effort", "max_iterations"), 10, id="manual"),
    ],
)  # fmt: skip
async def test_trees(
    site: Installation, tree: dict[str, object], ended: tuple[str, str], iterations: int
) -> None:
    scores = [0.1, 0.2, 0.3, 0.2, 0.3, 0.4, 0.5, 0.6, 0.6, 0.7]
    result = await site.run(spec(termination=tree), {"replies": drafts(*scores)})
    assert (result.outcome, result.reason) == ended
    assert len(result.iterations) == iterations


GOAL = {"type": "goal_bound", "max_iterations": 3}


@pytest.mark.long
@pytest.mark.parametrize(
    ("tones", "ended"),
    [
        pytest.param([0.7, 0.8], ("accepted", "goal_achieved"), id="achieved at the threshold"),
        pytest.param([0.5, 0.6, 0.7], ("best_effort", "max_iterations"), id="never achieved"),
    ],
)
async def test_the_judge_finds_the_goal_achieved(
    site: Installation, tones: list[float], ended: tuple[str, str]
) -> None:
    texts = [draft(0.1, f"n{n}") for n in range(len(tones))]
    replies = [*written(*texts), *judged(*(verdict(tone) for tone in tones))]
    result = await site.run(spec([WORDS_CHECK, TONE], termination=GOAL), {"replies": replies})
    assert (result.outcome, result.reason) == ended
    assert len(result.iterations) == len(tones)


TOOL = {"type": "tool_bound", "tool": "fs.read", "operator": "<=", "value": 3}


def read_back(path: str, content: str) -> list[dict[str, object]]:
    """Script entries that write a file and read it."""
    write = {"path": path, "content": content, "expected_hash": "absent"}
    return [
        {"tool_calls": [{"name": "fs.write", "arguments": write}]},
        {"tool_calls": [{"name": "fs.read", "arguments": {"path": path}}]},
    ]


@pytest.mark.long
async def test_the_number_of_a_tool_ends_the_run(site: Installation) -> None:
    replies: list[object] = []
    for name, content in (("a", "4 errors"), ("b", "none"), ("c", "3 errors")):
        replies += [*read_back(f"{name}.txt", content), {"text": draft(0.1, name)}]
    given = {
        **spec(termination=TOOL),
        "tools": {"access": "full", "allow": ["fs.write", "fs.read"]},
    }
    result = await site.run(given, {"replies": replies})
    assert (result.outcome, result.reason) == ("accepted", "completed")
    assert len(result.iterations) == 3
    assert "fs.read gave 3" in result.explanation


async def test_a_condition_on_a_tool_that_the_run_lacks_is_refused(site: Installation) -> None:
    tree = {**TOOL, "tool": "shell.full"}
    with pytest.raises(InvalidInput) as refused:
        await site.start(spec(termination=tree), {"replies": drafts(0.9)})
    assert "refine.termination.tool" in str(refused.value)


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "ended"),
    [
        pytest.param("default:accept", ("accepted", "approved"), id="a default"),
        pytest.param("default:continue", ("accepted", "quality_met"), id="going on"),
        pytest.param("end", ("unanswered", "gate_expired"), id="the end"),
    ],
)
async def test_an_escalation_that_nobody_answers(
    site: Installation, policy: str, ended: tuple[str, str]
) -> None:
    given = {**spec(escalate_below=0.3), "gates": {"timeout_s": 1, "on_expiry": policy}}
    run = await site.start(given, {"replies": drafts(0.2, 0.9)})
    await open_gate(site, run)
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason) == ended


@pytest.mark.long
@pytest.mark.parametrize("wall", [True, False], ids=["by the clock", "of work"])
async def test_a_timeout_in_the_tree_ends_the_step_in_flight(
    site: Installation, wall: bool
) -> None:
    tree = {
        "type": "combined",
        "operator": "or",
        "conditions": [
            {"type": "confidence", "threshold": 0.9},
            {"type": "timeout", "seconds": 2, "wall": wall},
        ],
    }
    slow = {"when": {"role": "executor"}, "text": draft(1.0), "delay_s": 200}
    result = await site.run(spec(termination=tree), {"replies": [*drafts(0.5), slow]})
    assert (result.outcome, result.reason) == ("deadline", "wall_time" if wall else "active_time")
    assert result.output == draft(0.5, "number1")
    assert result.spend.wall_time_s < 100


IN_FLIGHT: dict[str, list[object]] = {
    "a judge": [
        *written(draft(0.5)),
        {"when": {"role": "evaluator"}, "json": verdict(0.95), "delay_s": 200},
    ],
    "a tool": [{"tool_calls": [{"name": "probe.hang", "arguments": {}}]}],
    "a planner": [{"when": {"role": "planner"}, "text": "1. Think.", "delay_s": 200}],
}


@pytest.mark.long
@pytest.mark.parametrize("wall", [True, False], ids=["by the clock", "of work"])
@pytest.mark.parametrize("replies", IN_FLIGHT.values(), ids=IN_FLIGHT)
async def test_a_timeout_in_the_tree_ends_whatever_is_in_flight(
    probe: Installation, replies: list[object], wall: bool
) -> None:
    tree = {"type": "timeout", "seconds": 2, "wall": wall}
    plan = "on" if "planner" in str(replies) else "off"
    given = {**spec([WORDS_CHECK, TONE], termination=tree, plan=plan), "tools": {"access": "full"}}
    result = await probe.run(given, {"replies": replies})
    assert (result.outcome, result.reason) == ("deadline", "wall_time" if wall else "active_time")
    assert result.spend.wall_time_s < 50
