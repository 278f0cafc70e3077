"""The tree of runs with budget bars, the decisions of a manager, and what is told of children."""

from decimal import Decimal

import pytest
from inline_snapshot import snapshot

from perdure.domain.foundation.errors import NotFound
from perdure.domain.run.child_runs import ChildStatus
from perdure.domain.run.status import RunStatus
from perdure.domain.turns.records import IterationRecord, StageRecord, ToolCallRecord
from perdure.interfaces.cli.views.events import event_line
from perdure.interfaces.cli.views.history import history_view
from perdure.interfaces.cli.views.layout import plain
from perdure.interfaces.cli.views.live import live_view
from perdure.interfaces.cli.views.status import spent_share, status_view, tree_lines
from perdure.interfaces.run_tree import Below, tree_below
from tests.interfaces.cli.samples import event, status


def child(name: str, **facts: object) -> ChildStatus:
    values: dict[str, object] = {"id": f"d.{name}", "name": name, "kind": "agent", **facts}
    return ChildStatus.model_validate(values)


DONE = child(
    "reader",
    state="ended",
    outcome="accepted",
    tokens=5_000,
    token_limit=10_000,
    cost_usd=Decimal("0.01"),
    cost_limit_usd=Decimal("0.10"),
    confidence=0.7,
)
OPEN = child("writer", tokens=10, token_limit=10_000, cost_usd=None)
CRASHED = child("lost", state="ended", tokens=9_990, token_limit=10_000)
MANAGER = child("parts", kind="delegation", tokens=12_000)
CUT = child("slow", state="ended", outcome="out_of_budget", tokens=11_000, token_limit=10_000)
TREE = (Below(DONE), Below(MANAGER, (Below(OPEN), Below(CRASHED))), Below(CUT))


def test_the_tree_with_budget_bars() -> None:
    text = tree_lines(TREE)
    assert text is not None
    assert text.plain == snapshot("""\
├ reader ✓ accepted ▰▰▰▰▱▱▱▱ 5.0k of 10k tokens · $0.01 of $0.10 · confidence 0.70
├ parts (delegation) running ········ 12k tokens · $0
│ ├ writer running ▰▱▱▱▱▱▱▱ 10 of 10k tokens · unknown
│ └ lost ✗ lost ▰▰▰▰▰▰▰▱ 10k of 10k tokens · $0
└ slow out of budget ▰▰▰▰▰▰▰▰ 11k of 10k tokens · $0\
""")


def test_status_and_watch_show_the_tree() -> None:
    for view in (status_view(status(), below=TREE), live_view(status(), below=TREE)):
        shown = plain(view)
        assert "├ reader ✓ accepted ▰▰▰▰▱▱▱▱" in shown
        assert "└ lost ✗ lost ▰▰▰▰▰▰▰▱" in shown
    assert "children" not in plain(status_view(status()))


def test_a_large_tree_is_cut_with_a_count() -> None:
    text = tree_lines([Below(child(f"w{n}")) for n in range(30)], limit=3)
    assert text is not None
    assert text.plain.splitlines()[-1] == "and 27 more"
    assert tree_lines(()) is None


@pytest.mark.parametrize(
    ("facts", "share"),
    [
        ({}, None),
        ({"tokens": 5, "token_limit": 10}, 0.5),
        ({"tokens": 5, "token_limit": 10, "cost_usd": "0.9", "cost_limit_usd": "1"}, 0.9),
        ({"cost_usd": None, "cost_limit_usd": "1"}, None),
        ({"tokens": 20, "token_limit": 10}, 2.0),
    ],
)
def test_the_tighter_limit_counts(facts: dict[str, object], share: float | None) -> None:
    assert spent_share(child("w", **facts)) == share


class Runs:
    """Statuses by run; asking is counted."""

    def __init__(self, **below: tuple[ChildStatus, ...]) -> None:
        self.below, self.asked = below, list[str]()

    async def status(self, run: str) -> RunStatus:
        self.asked.append(run)
        if run.removeprefix("d.") not in self.below:
            raise NotFound(f"There is no run {run}.")
        return status(id=run, runs_below=self.below[run.removeprefix("d.")])


async def test_the_tree_is_looked_up_level_by_level() -> None:
    deeper = child("deeper", kind="delegation")
    runs = Runs(parts=(OPEN, deeper), deeper=(DONE,))
    top = status(id="d", runs_below=(DONE, MANAGER, child("gone", kind="roles")))
    tree = await tree_below(runs, top)  # pyright: ignore[reportArgumentType]
    assert tree == (
        Below(DONE),
        Below(MANAGER, (Below(OPEN), Below(deeper, (Below(DONE),)))),
        Below(child("gone", kind="roles")),
    )
    assert set(runs.asked) == {"d.parts", "d.gone", "d.deeper"}
    assert await tree_below(runs, top, looks=0) == (  # pyright: ignore[reportArgumentType]
        Below(DONE),
        Below(MANAGER),
        Below(child("gone", kind="roles")),
    )


def test_the_history_tells_decisions_with_reasons() -> None:
    records = (
        IterationRecord(index=1, adaptation="plan: too large for one"),
        IterationRecord(index=2, score=0.7, adaptation="delegate: two parts are ready"),
    )
    shown = plain(history_view(records, 2))
    assert "[iter 1] continue · plan: too large for one" in shown
    assert "[iter 2] score 0.70 · delegate: two parts are ready" in shown
    head = shown.splitlines()[0].split()
    assert head == ["#", "score", "decision", "did", "tokens", "cost", "time"]
    assert [row.split()[3] for row in shown.splitlines()[1:3]] == ["plan", "delegate"]


def test_the_history_of_stages_names_them_and_how_they_stand() -> None:
    stages = (
        StageRecord(name="plan", role="planner", status="completed"),
        StageRecord(name="code", role="coder", status="failed", error="it broke"),
    )
    shown = plain(history_view((IterationRecord(index=1, stages=stages),), None))
    assert shown.splitlines()[0].split() == ["#", "decision", "stages", "tokens", "cost", "time"]
    assert "plan, code (failed)" in shown.splitlines()[1]


def test_the_history_of_an_agent_names_its_tools_and_what_went_wrong() -> None:
    records = (
        IterationRecord(index=1, calls=(ToolCallRecord(name="fs.read", id="c1", outcome="ok"),)),
        IterationRecord(index=2, error="the model refused"),
    )
    shown = plain(history_view(records, None)).splitlines()
    assert shown[0].split() == ["#", "decision", "tools", "error", "tokens", "cost", "time"]
    assert "fs.read" in shown[1]
    assert "the model refused" in shown[2]


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        (
            "child_finished",
            {"name": "w1", "outcome": "accepted", "reason": "text_answer", "tokens": 3100},
            "[child w1] accepted · 3.1k tokens",
        ),
        (
            "child_finished",
            {"name": "w1", "outcome": "out_of_budget", "reason": "tokens", "tokens": 9},
            "[child w1] out of budget (tokens) · 9 tokens",
        ),
        ("child_finished", {"name": "w1"}, "[child w1] lost"),
        (
            "strategy_switched",
            {"strategy": "simplify", "why": "confidence changed by 0"},
            "[strategy] simplify · confidence changed by 0",
        ),
        (
            "verdict",
            {"gate": "success_criteria", "missing": ["two sources", "a table"]},
            "[verdict] not complete (success criteria) · two sources; a table",
        ),
        ("skill_saved", {"name": "counting", "version": 2}, "[skill] counting"),
    ],
)
def test_what_is_told_of_children(kind: str, data: dict[str, object], told: str) -> None:
    text = event_line(event(1, kind, **data))  # type: ignore[arg-type]
    assert text is not None and text.plain == told
