"""The arithmetic of the benchmarks, on figures that are known."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.__main__ import plan_of
from benchmarks.account import STEPS, WHOLE_USD, Iteration, account
from benchmarks.boxes import Box, BoxName
from benchmarks.claims import Claim
from benchmarks.conditions import Conditions
from benchmarks.fairness import Fairness
from benchmarks.histories import Recorded, TurnSize, early, late, mean_size, slope
from benchmarks.made_tools import BoxCost, BoxRatio, ToolCalls, require_same_result
from benchmarks.measurement import savings_chart
from benchmarks.overhead import Against, Overhead
from benchmarks.pairing import Disagreement, Ratio, ratio, require_same_work
from benchmarks.report import Report, markdown
from benchmarks.scene import RESULT_BYTES, book, booked, page
from benchmarks.sides import Played
from benchmarks.tokens import Savings, cached_cost, naive_prompts, plain_cost, report_text, shares

PLAYED = Played(
    side="perdure",
    run="run",
    cpu_s=0.1,
    recorded=Recorded(seconds=1, turns_s=1, steps={}, turns=(), executions=1),
    ledger=("model 1", "tool 1", "model 2"),
    steps=(2, 1, 3),
)
QUIET = Conditions(
    at=datetime(2026, 1, 1, tzinfo=UTC),
    python="3.11",
    server="1.32",
    packages={},
    poll_rates=("rate=2000",),
    pragmas=("journal_mode=wal",),
    worker={},
    cpus=2,
    load=(0.0, 0.0, 0.0),
)


def turns(*sizes: int) -> list[TurnSize]:
    return [TurnSize(events=12, size=size) for size in sizes]


def test_ratios_are_of_pairs() -> None:
    assert ratio([2, 9, 4], [1, 3, 4]) == Ratio(median=2, least=1, most=3, pairs=3)


def test_an_unpaired_figure_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio([1, 2], [1])


def test_equal_work_passes() -> None:
    delta = replace(PLAYED, side="delta")
    require_same_work([PLAYED, delta])
    with pytest.raises(Disagreement, match="Activities"):
        require_same_work([PLAYED, replace(delta, steps=(*PLAYED.steps, 1))])


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        pytest.param({"steps": (2, 1, 2)}, "Activities", id="a step less"),
        pytest.param({"ledger": ("model 1",)}, "lengths", id="a call less"),
        pytest.param({"ledger": ("model 1", "tool 2", "model 2")}, "tool 2", id="another call"),
        pytest.param(
            {"ledger": ("model 1", "model 2", "tool 1")}, "lines", id="calls in another order"
        ),
    ],
)
def test_unequal_work_fails(changed: dict[str, object], named: str) -> None:
    other = replace(PLAYED, side="delta", run="other", **changed)
    with pytest.raises(Disagreement, match=named):
        require_same_work([PLAYED, other])


def test_windows_of_a_long_run_are_ten_turns_wide() -> None:
    run = turns(*range(1, 201))
    assert [turn.size for turn in early(run)] == list(range(6, 16))
    assert [turn.size for turn in late(run)] == list(range(191, 201))


@given(count=st.integers(min_value=2, max_value=40))
def test_windows_of_a_short_run_hold_something(count: int) -> None:
    run = turns(*range(1, count + 1))
    assert early(run)
    assert mean_size(early(run)) <= mean_size(late(run))


@given(
    start=st.integers(min_value=1, max_value=5_000),
    rise=st.integers(min_value=0, max_value=500),
    count=st.integers(min_value=8, max_value=40),
    roll=st.integers(min_value=0, max_value=7),
)
def test_the_slope_is_the_rise_whatever_one_roll_adds(
    start: int, rise: int, count: int, roll: int
) -> None:
    sizes = [start + rise * index for index in range(count)]
    sizes[roll] += 70_000
    assert slope(turns(*sizes)) == pytest.approx(rise)


def test_the_naive_prompt_keeps_every_draft_and_all_feedback() -> None:
    # Task 100, drafts 50, feedback 10 and then 20; the naive prompt adds, ours replaces.
    assert naive_prompts(100, [50, 50, 50], [10, 20]) == (100, 160, 230)


def test_all_drafts_of_the_report_are_equally_long_and_have_their_points() -> None:
    assert len({len(report_text(points)) for points in range(21)}) == 1
    assert [report_text(points).count("Point ") for points in (0, 3, 20)] == [0, 3, 20]


@pytest.mark.parametrize(
    ("least", "most", "said"), [(0.4, 0.6, "40% to 60%"), (1, 1, "100%")], ids=["range", "one"]
)
def test_a_claim_stands_beside_what_was_found(least: float, most: float, said: str) -> None:
    claim = Claim(name="skips", least=least, most=most, found=0.5)
    report = markdown(Report(conditions=QUIET, claims=(claim,)))
    assert f"| skips | {said} | 50% |" in report


def test_an_account_takes_one_saving_after_the_other() -> None:
    # Price 3 and 15 per million: the sums below are tokens of input and of output.
    first = Iteration(prompt=100, output=20, told=10, task=80, asked=50, whole=50, verdict=4)
    second = Iteration(prompt=110, output=20, told=0, task=80, asked=0, whole=50, verdict=0)
    found = [step.usd for step in account([first, second])]
    sent = [(230 + 100, 40 + 8), (230 + 100, 40 + 8), (210 + 100, 40 + 8), (210 + 100, 40 + 8)]
    naive = 3 * sent[0][0] + 15 * sent[0][1]
    wanted = [Decimal(3 * read + 15 * said) for read, said in sent]
    wanted.append(Decimal(3 * (210 + 50) + 15 * 44))
    wanted.append(wanted[-1] + 3 * (Decimal(80) / 4 - 80 * Decimal("0.9")))
    wanted.append(Decimal(15 * 44))
    assert found == [WHOLE_USD * cost / naive for cost in wanted]


def test_the_curve_has_the_sums_up_to_each_iteration() -> None:
    # Price 3 and 15 per million: an output token costs what five of input do.
    sizes = Savings(
        prompts=(100, 100), naive_prompts=(100, 300), outputs=(20, 20), score=None, savings=()
    )
    assert shares(sizes) == {"input tokens": (1.0, 0.5), "cost": (1.0, pytest.approx(2 / 3))}
    drawn = savings_chart(sizes)
    assert "input tokens" in drawn and "cost" in drawn and "iteration" in drawn


def test_the_docs_show_the_account_that_a_report_shows() -> None:
    root = Path(__file__).parents[2]
    shown = (root / "docs" / "deciding.md").read_text("utf-8").partition("| what is sent |")[2]
    rows = re.findall(r"^\| .+ \| \$\d.*$", shown, re.MULTILINE)
    assert len(rows) == len(STEPS)
    report = (root / "benchmarks" / "results" / "example.md").read_text("utf-8").splitlines()
    assert set(rows) <= set(report)


def test_the_cache_makes_known_tokens_cheaper_and_new_ones_dearer() -> None:
    million = [1_000_000]
    assert plain_cost(million, [0]) == Decimal(3)
    assert cached_cost(million, [0], known=million) == Decimal("0.3")
    assert cached_cost(million, [0], known=[0]) == Decimal("3.75")


def test_pages_differ_and_have_one_size() -> None:
    assert page(1) != page(2)
    assert {len(page(turn).encode()) for turn in (1, 10, 999_999)} == {RESULT_BYTES}


async def test_the_ledger_keeps_the_order(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCHMARK_LEDGER", str(tmp_path))
    await book("run", "model", 1)
    await book("run", "tool", 1)
    assert booked(tmp_path, "run") == ("model 1", "tool 1")


@pytest.mark.parametrize(
    ("load", "wall", "said"),
    [(0.1, 1.2, "yes"), (0.1, 1.3, "no"), (4.0, 1.2, "machine busy"), (4.0, 9.0, "machine busy")],
    ids=["kept", "missed", "busy", "busy and slow"],
)
def test_times_are_judged_on_a_quiet_machine_alone(load: float, wall: float, said: str) -> None:
    found = Ratio(median=wall, least=wall, most=wall, pairs=5)
    against = Against(baseline="delta", turn=found, run=found, cpu=found)
    report = Report(
        conditions=QUIET.model_copy(update={"load": (load, load, load)}),
        overhead=Overhead(turns=30, costs=(), ratios=(against,)),
    )
    row = next(line for line in markdown(report).splitlines() if "to delta: wall" in line)
    assert row == f"| B1 a turn, to delta: wall | {wall:.3f} | at most 1.25 | {said} |"


def box(name: BoxName, said: str, against: BoxName | None = None) -> Box:
    async def call() -> str:
        return said

    return Box(name=name, call=call, against=against)


async def test_boxes_that_give_another_result_are_refused() -> None:
    await require_same_result([box("in process", "1"), box("bare interpreter", "1")])
    with pytest.raises(Disagreement, match="bare interpreter gives 2"):
        await require_same_result([box("in process", "1"), box("bare interpreter", "2")])


@pytest.mark.parametrize(("found", "said"), [(1.1, "yes"), (1.3, "no")])
def test_a_call_of_a_made_tool_is_held_against_its_bar(found: float, said: str) -> None:
    against = BoxRatio(
        box="made tool, sandbox",
        against="bare interpreter",
        call=Ratio(median=found, least=found, most=found, pairs=5),
    )
    cost = BoxCost(box="made tool, sandbox", call_ms=5.5, calls_per_s=250)
    report = markdown(
        Report(conditions=QUIET, tool_calls=ToolCalls(calls=40, costs=(cost,), ratios=(against,)))
    )
    bar = f"| B8 made tool, sandbox, to bare interpreter | {found:.3f} | at most 1.2 | {said} |"
    assert bar in report.splitlines()
    assert "| made tool, sandbox | 5.500 | 250 |" in report.splitlines()


@pytest.mark.parametrize(("found", "said"), [(2.9, "yes"), (3.1, "no")])
def test_a_run_beside_a_large_tenant_is_held_against_its_bar(found: float, said: str) -> None:
    beside = Ratio(median=found, least=found, most=found, pairs=5)
    fairness = Fairness(loops=500, slots=100, alone_s=4.0, beside_s=4 * found, beside=beside)
    report = markdown(Report(conditions=QUIET, fairness=(fairness,))).splitlines()
    name = "B9 100 slots, a run beside 500 loops of another tenant, to alone"
    assert f"| {name} | {found:.3f} | at most 3 | {said} |" in report
    assert "| alone | 4.0 | 1 |" in report


def test_the_quick_set_is_the_default() -> None:
    plan, _ = plan_of([])
    assert (plan.only, plan.pairs, plan.long_turns) == (
        ("B1", "B2", "B3", "B4", "B5", "B6", "B7", "B8", "B9", "P1", "P2"),
        5,
        200,
    )


@pytest.mark.parametrize(
    "given_", [["--only", "B0"], ["--pairs", "0"], ["--turns", "x"], ["--calls", "0"]]
)
def test_a_wrong_command_line_is_refused(given_: list[str]) -> None:
    with pytest.raises(SystemExit):
        plan_of(given_)
