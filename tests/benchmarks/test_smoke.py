"""The benchmarks run from end to end, and their sides do the same work; no time is judged."""

import json
from pathlib import Path

import pytest

from benchmarks.account import WHOLE_USD
from benchmarks.fairness import FEW_SLOTS
from benchmarks.measurement import Plan, measure, write
from benchmarks.report import Report

PLAN = Plan(
    pairs=2, turns=3, long_turns=12, iterations=3, calls=4,
    page_iterations=5, watchers=3, watch_s=5, peer_turns=4, peer_pairs=1,
    replay_turns=4, crowds=((3, 3),), crowd_pairs=1, memory_loops=3, early_turns=2, late_turns=3,
    tenant_loops=4, tenant_runs=1,
)  # fmt: skip


@pytest.mark.slow
async def test_everything_is_measured_and_written(tmp_path: Path) -> None:
    told: list[str] = []
    report = await measure(PLAN, on_run=told.append)

    assert report.overhead is not None
    assert report.histories is not None
    assert report.savings is not None
    counts = {cost.activities for cost in report.overhead.costs}
    assert counts == {(4, 3, report.overhead.costs[0].activities[2])}
    assert {against.turn.pairs for against in report.overhead.ratios} == {2}
    assert [line for line in told if line.startswith("B1")][:3] == [
        "B1: perdure, warm-up",
        "B1: delta, warm-up",
        "B1: delta on three queues, warm-up",
    ]

    ours, full = report.histories.of("perdure"), report.histories.of("full")
    assert [len(growth.sizes) for growth in report.histories.growths] == [12, 12, 12]
    # What the conversation holds by then is 1,000 bytes a turn, and none of it is ours to carry.
    assert full.slope_bytes > 900
    assert ours.slope_bytes < 100
    assert ours.whole_events <= 13
    assert ours.whole_bytes <= 4 * 1024

    assert [saving.iterations for saving in report.savings.savings] == [3]
    assert 0 < report.savings.savings[0].input_ratio < 1
    assert report.savings.score == 1
    # Said of savings, and found: none is less than it is said to be.
    assert [claim.name for claim in report.claims if claim.found < claim.least - 0.001] == []
    for one in report.accounts:
        costs = [step.usd for step in one.steps]
        assert costs[0] == WHOLE_USD
        assert costs == sorted(costs, reverse=True), "each saving saves"

    assert report.tool_calls is not None
    boxes = {cost.box: cost for cost in report.tool_calls.costs}
    assert {"made tool, whole call", "made tool, sandbox", "in process"} <= set(boxes)
    assert boxes["in process"].call_ms < boxes["bare interpreter"].call_ms
    assert {found.call.pairs for found in report.tool_calls.ratios} == {2}

    pages = report.pages
    assert pages is not None
    assert pages.first_requests >= 3  # the page, its style and its script
    assert pages.parts >= pages.watchers, "each saw the run change"

    beside = report.beside_peers
    assert beside is not None
    assert [cost.side for cost in beside.costs][:3] == ["perdure", "delta", "full"]
    assert {round(cost.events) for cost in beside.costs} == {12}

    assert [one.slots for one in report.fairness] == [50, FEW_SLOTS]
    assert all(one.alone_s > 4 for one in report.fairness), "two calls of two seconds"

    written = {path.name: path.read_text() for path in write(report, tmp_path / "out")}
    assert set(written) == {
        "benchmarks.md", "benchmarks.json", "bytes-per-turn.svg", "token-savings.svg"
    }  # fmt: skip
    assert Report.model_validate(json.loads(written["benchmarks.json"])) == report
    assert "perdure / delta on three queues" in written["benchmarks.md"]
