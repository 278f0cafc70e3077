"""A child's share, its settling, and its name: nothing is promised twice, nothing counted twice."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.accounting import (
    Budget,
    BudgetLimits,
    LimitReached,
    Reservation,
    Spend,
    reserve,
)
from perdure.domain.llm.usage import Usage
from perdure.domain.run.child_runs import (
    CHILDREN_KEPT,
    ChildStatus,
    child_id,
    child_number,
    fractions,
    is_below,
    is_child,
    lineage,
    reserve_run,
    settle_run,
    slice_usage,
    with_child_status,
)
from perdure.domain.run.result import SpendReport

COUNTED = ("tokens", "cost", "tool_calls", "workers", "iterations")
LIMITS = BudgetLimits(
    tokens=100_000, cost_usd=Decimal("5.00"), tool_calls=100, workers=20, iterations=100, depth=4
)


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("writer", "r.w3-writer"),
        ("A long name of a worker", "r.w3-a-long-name"),
        ("---", "r.w3"),
        ("Ünïcode.dots", "r.w3-n-code-dots"),
    ],
)
def test_a_child_is_named_after_its_parent(name: str, id: str) -> None:
    assert child_id("r", 3, name) == id
    assert is_below(id, "r")


@pytest.mark.parametrize(
    ("child", "number"), [("r.w12-a", 12), ("r.w3", 3), ("r.other", 0), ("x", 0)]
)
def test_the_number_of_a_child(child: str, number: int) -> None:
    assert child_number(child, "r") == number


def test_lineage_names_every_ancestor() -> None:
    assert lineage("r.w1-a.w2-b") == ("r", "r.w1-a", "r.w1-a.w2-b")
    assert not is_below("run.w1", "r")


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ((0.5, 0.5, 0.5), (0.5, 1.0, 0.0)),
        ((0.3, None, 0.2), (0.3, None, pytest.approx(0.2 / 0.7))),
        ((1.0, 0.1), (1.0, 0.0)),
        ((0.0, 0.5), (0.05, pytest.approx(0.5 / 0.95))),
        ((-3.0, 1.0), (0.05, 0.0)),
        ((-3.0, 0.9), (0.05, pytest.approx(0.9 / 0.95))),
        ((-0.0,), (0.05,)),
        ((0.049,), (0.05,)),
        ((-1e9, -1.0, 0.5), (0.05, pytest.approx(0.05 / 0.95), pytest.approx(0.5 / 0.9))),
        ((0.5, -3.0, 0.5), (0.5, pytest.approx(0.05 / 0.5), 0.0)),
        ((None, 0.0), (None, 0.05)),
        ((7.0, 0.1), (1.0, 0.0)),
        ((), ()),
    ],
    ids=[
        "R46: the third is refused",
        "unasked stays open",
        "all is given",
        "none is the least",
        "less than none gives others no more",
        "a negative one counts as the least",
        "minus nothing",
        "less than the least",
        "two negative ones",
        "a negative one between others",
        "none beside one that asks for nothing",
        "more than all is all",
        "nobody",
    ],
)
def test_shares_of_one_delegation(asked: tuple[float | None, ...], given: object) -> None:
    assert fractions(asked) == given


def test_r46_the_third_half_is_refused() -> None:
    budget, refused = Budget(limits=LIMITS), []
    for number, share in enumerate(fractions((0.5, 0.5, 0.5))):
        reserved = reserve_run(budget, f"w{number}", spawns=True, fraction=share, siblings=3)
        if isinstance(reserved, LimitReached):
            refused.append(reserved.text)
        else:
            budget, _ = reserved
    assert len(refused) == 1
    assert "add up to more" in refused[0]
    for dimension in COUNTED:
        limit = budget.limits.limit(dimension)
        assert limit is not None and budget.reserved_in(dimension) <= limit


def test_a_leaf_takes_one_worker_and_no_depth() -> None:
    limits = LIMITS.model_copy(update={"depth": 0, "workers": 1})
    reserved = reserve_run(Budget(limits=limits), "w", spawns=False)
    assert not isinstance(reserved, LimitReached)
    budget, own = reserved
    assert budget.reserved["w"].workers == 1
    assert own.depth == 0
    assert isinstance(reserve_run(budget, "x", spawns=False), LimitReached)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"depth": 0}, "depth"), ({"workers": 1}, "workers")],
    ids=["no level left", "no worker left for it to start"],
)
def test_who_may_not_spawn(change: dict[str, int], said: str) -> None:
    budget = Budget(limits=LIMITS.model_copy(update=change))
    refused = reserve_run(budget, "m", spawns=True)
    assert isinstance(refused, LimitReached)
    assert said in refused.text


def test_clocks_are_what_remains_of_the_parents() -> None:
    limits = LIMITS.model_copy(update={"active_time": 100.0, "wall_time": 60.0})
    budget = Budget(limits=limits, spent=Spend(active_time=40.0))
    reserved = reserve_run(budget, "w", spawns=False, wall_time=20.0)
    assert not isinstance(reserved, LimitReached)
    assert (reserved[1].active_time, reserved[1].wall_time) == (60.0, 40.0)


def spends(tokens: int, workers: int = 0) -> SpendReport:
    return SpendReport(
        tokens=tokens,
        output_tokens=tokens,
        cost_usd=Decimal(tokens) / 1_000_000,
        model_calls=1,
        workers=workers,
        usage=Usage(output_tokens=tokens),
    )


def test_a_child_is_settled_once() -> None:
    reserved = reserve_run(Budget(limits=LIMITS), "w", spawns=False)
    assert not isinstance(reserved, LimitReached)
    once = settle_run(reserved[0], "w", spends(500), spawned=False)
    assert settle_run(once, "w", spends(500), spawned=False) == once
    assert (once.spent.tokens, once.spent.workers, once.reserved) == (500, 1, {})


def test_a_child_with_an_unpriced_call_gives_only_back_what_it_did_not_spend() -> None:
    reserved = reserve_run(Budget(limits=LIMITS), "w", spawns=False)
    assert not isinstance(reserved, LimitReached)
    spend = SpendReport(tokens=20, cost_usd=None, known_cost_usd=Decimal("1.25"))
    spent = settle_run(reserved[0], "w", spend, spawned=False).spent
    assert (spent.cost_usd, spent.unpriced) == (Decimal("1.25"), True)


Trees = st.recursive(st.just([]), lambda below: st.lists(below, max_size=3), max_leaves=12)


def grow(limits: BudgetLimits, tree: list, share: float) -> tuple[SpendReport, int]:
    """Run a tree in which everybody uses up what it was given; returns its spend and its depth."""
    budget, deepest = Budget(limits=limits), 0
    own = int((limits.tokens or 0) * 0.1)
    budget = budget.model_copy(update={"spent": Spend(tokens=own)})
    for number, below in enumerate(tree):
        reserved = reserve_run(budget, f"{number}", spawns=bool(below), fraction=share)
        if isinstance(reserved, LimitReached):
            continue
        budget, given_limits = reserved
        for dimension in COUNTED:
            limit = budget.limits.limit(dimension)
            assert limit is None or budget.reserved_in(dimension) + budget.spent.of(
                dimension, wall_time=0
            ) <= max(limit, 1)
        spend, depth = grow(given_limits, below, share)
        deepest = max(deepest, depth + 1 if below else 0)
        budget = settle_run(budget, f"{number}", spend, spawned=bool(below))
    spent = budget.spent
    return SpendReport(tokens=spent.tokens, workers=spent.workers), deepest


@given(tree=Trees, share=st.floats(0.05, 0.95))
def test_no_tree_spends_more_than_its_root(tree: list, share: float) -> None:
    spend, depth = grow(LIMITS, tree, share)
    assert spend.tokens <= (LIMITS.tokens or 0)
    assert spend.workers <= (LIMITS.workers or 0)
    assert depth <= LIMITS.depth


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=8))
def test_fractions_never_promise_more_than_there_is(asked: list[float]) -> None:
    left = 1.0
    for fraction in fractions(asked):
        assert fraction is not None and 0 <= fraction <= 1
        left -= left * fraction
    assert left >= -1e-9


def test_open_children_stay_and_old_ended_ones_go() -> None:
    known: list[ChildStatus] = []
    for number in range(CHILDREN_KEPT + 10):
        state = "running" if number < 5 else "ended"
        known = with_child_status(
            known, ChildStatus(id=f"c{number}", name="w", kind="agent", state=state)
        )
    assert len(known) == CHILDREN_KEPT
    assert [child.id for child in known if child.open] == [f"c{n}" for n in range(5)]


def test_a_line_of_a_report_gives_its_usage_back() -> None:
    usage = Usage(input_tokens=10, output_tokens=5, cache_read_tokens=7)
    line = {
        "tokens": usage.counted_tokens(),
        "input_tokens": usage.prompt_tokens,
        "output_tokens": 5,
    }
    assert slice_usage(line) == usage


def test_a_reservation_of_a_step_is_no_childs() -> None:
    budget = reserve(Budget(limits=LIMITS), "s1", Reservation(tokens=10))
    assert settle_run(budget, "w", spends(5), spawned=False) == budget


@pytest.mark.parametrize(
    ("run", "child"),
    [
        ("delegation-x-1a2b.w3-coder", True),
        ("delegation-x-1a2b.w3", True),
        ("r.w1-a.w12-b-c", True),
        ("agent-w3-coder", False),
        ("v1.w3x", False),
        ("r.learn", False),
    ],
)
def test_the_id_of_a_child_is_known_by_its_form(run: str, child: bool) -> None:
    assert is_child(run) is child
