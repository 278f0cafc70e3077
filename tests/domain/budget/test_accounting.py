"""The envelope: every rule of the budget at its boundary."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import DIMENSIONS, BudgetLimits, LimitReached, Reservation
from perdure.domain.budget.amend import amend, with_amendments
from tests.domain.budget.examples import budget


def test_defaults_of_the_envelope():
    limits = BudgetLimits()
    assert (limits.tokens, limits.cost_usd, limits.active_time) == (200_000, Decimal("2.00"), 300)
    assert (limits.depth, limits.wrap_up, limits.on_exhausted) == (4, 0.10, "abort")
    assert (limits.wall_time, limits.iterations) == (2_592_000, None)
    assert not limits.count_cache_reads


@pytest.mark.parametrize(
    ("dimension", "limits", "limit"),
    [
        ("tokens", {"tokens": 0}, None),
        ("tokens", {"tokens": None}, None),
        ("tokens", {"tokens": 5}, 5),
        ("cost", {"cost_usd": 0}, None),
        ("cost", {"cost_usd": "0.5"}, Decimal("0.5")),
        ("wall_time", {"wall_time": 1.5}, Decimal("1.5")),
        ("workers", {"workers": 0}, None),
        ("iterations", {"iterations": None}, 10_000),
        ("iterations", {"iterations": 0}, 10_000),
        ("iterations", {"iterations": 7}, 7),
    ],
)
def test_zero_and_null_mean_unlimited(dimension, limits, limit):
    assert budget(**limits).limits.limit(dimension) == limit


@pytest.mark.parametrize(
    "limits",
    [
        {"iterations": 10_001},
        {"tokens": -1},
        {"cost_usd": "-0.01"},
        {"depth": -1},
        {"wrap_up": 1},
        {"on_exhausted": "panic"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_limits_out_of_range_are_refused(limits):
    with pytest.raises(ValidationError):
        BudgetLimits.model_validate(limits)


def test_money_from_a_float_is_exact():
    assert BudgetLimits.model_validate({"cost_usd": 0.1}).cost_usd == Decimal("0.1")


LIMITS = {
    "tokens": 100,
    "output_tokens": 50,
    "model_calls": 4,
    "cost_usd": "1.00",
    "tool_calls": 3,
    "iterations": 9,
    "workers": 2,
    "wall_time": 60,
    "active_time": 30,
    "wrap_up": 0,
}
AT_LIMIT = {
    "tokens": 100,
    "output_tokens": 50,
    "model_calls": 4,
    "cost_usd": Decimal(1),
    "tool_calls": 3,
    "iterations": 9,
    "workers": 2,
    "active_time": 30.0,
}
BELOW = {
    "tokens": 99,
    "output_tokens": 49,
    "model_calls": 3,
    "cost_usd": Decimal("0.99"),
    "tool_calls": 2,
    "iterations": 8,
    "workers": 1,
    "active_time": 29.9,
}
FIELD: dict[str, str] = {"cost": "cost_usd"}


@pytest.mark.parametrize("dimension", [name for name in DIMENSIONS if name != "wall_time"])
def test_exhausted_begins_exactly_at_the_limit(dimension: str):
    field: str = FIELD.get(dimension, dimension)
    assert budgets.exhausted_limit(budget(BELOW, **LIMITS), wall_time=59) is None
    refused = budgets.exhausted_limit(
        budget({**BELOW, field: AT_LIMIT[field]}, **LIMITS), wall_time=59
    )
    assert refused is not None and refused.dimension == dimension


@pytest.mark.parametrize(("wall", "spent"), [(59.9, None), (60, "wall_time"), (61, "wall_time")])
def test_wall_time_is_handed_in(wall, spent):
    refused = budgets.exhausted_limit(budget(**LIMITS), wall_time=wall)
    assert (refused and refused.dimension) == spent


@pytest.mark.parametrize("first", range(len(DIMENSIONS)), ids=DIMENSIONS)
def test_the_first_spent_dimension_in_the_fixed_order_is_the_reason(first):
    left = set(DIMENSIONS[:first])
    spent = {
        FIELD.get(name, name): (BELOW if name in left else AT_LIMIT)[FIELD.get(name, name)]
        for name in DIMENSIONS
        if name != "wall_time"
    }
    refused = budgets.exhausted_limit(
        budget(spent, **LIMITS), wall_time=0 if "wall_time" in left else 60
    )
    assert refused is not None and refused.dimension == DIMENSIONS[first]


def test_the_last_permitted_iteration_may_finish():
    at_limit = budget({"iterations": 9}, **LIMITS)
    assert budgets.exhausted_limit(at_limit, within_iteration=True) is None
    assert budgets.exhausted_limit(at_limit) is not None


def test_reservations_count_as_spent():
    held = budgets.reserve(budget(tokens=100, wrap_up=0), "a", Reservation(tokens=100))
    assert budgets.exhausted_limit(held) is not None
    assert held.remaining("tokens") == 0
    assert budgets.exhausted_limit(budgets.release(held, "a")) is None


def test_remaining_is_never_negative_and_none_when_unlimited():
    overspent = budget({"tokens": 500}, tokens=100)
    assert overspent.remaining("tokens") == 0
    assert overspent.remaining("tool_calls") is None


@pytest.mark.parametrize(
    ("spent", "limits", "wall", "share"),
    [
        ({}, {}, 0, 1.0),
        ({"tokens": 25}, {"tokens": 100}, 0, 0.75),
        ({"tokens": 25, "cost_usd": Decimal("0.9")}, {"tokens": 100, "cost_usd": 1}, 0, 0.1),
        ({}, {"wall_time": 10}, 4, 0.6),
        ({"tokens": 500}, {"tokens": 100}, 0, 0.0),
    ],
)
def test_fraction_remaining_is_the_smallest_share(spent, limits, wall, share):
    assert budget(spent, **limits).fraction_remaining(wall_time=wall) == pytest.approx(share)


# The wrap-up reserve


@pytest.mark.parametrize(
    ("complete", "wrap_up", "visible"),
    [(False, False, 90), (False, True, 100), (True, False, 100), (True, True, 100)],
)
def test_the_reserve_is_hidden_until_there_is_a_result(complete, wrap_up, visible):
    envelope = budget(tokens=100, cost_usd=1).model_copy(update={"complete_output": complete})
    assert envelope.visible_limit("tokens", wrap_up=wrap_up) == visible
    assert envelope.visible_limit("cost", wrap_up=wrap_up) == Decimal(visible) / 100


@pytest.mark.parametrize(
    ("dimension", "limits", "visible"),
    [
        ("output_tokens", {"output_tokens": 1_000}, 900),
        ("output_tokens", {"output_tokens": 100}, 100),  # too little to say anything with
        ("model_calls", {"model_calls": 100}, 100),
    ],
)
def test_what_can_pay_for_a_last_word_has_a_reserve(dimension, limits, visible):
    assert budget(**limits).visible_limit(dimension) == visible


def test_an_ordinary_call_stops_at_the_reserve_and_a_closing_one_may_use_it():
    spent = budget({"tokens": 90}, tokens=100)
    refused = budgets.exhausted_limit(spent)
    assert refused is not None and refused.text == "tokens: 90 of 90"
    assert budgets.exhausted_limit(spent, wrap_up=True) is None


# Warnings


@pytest.mark.parametrize(
    ("tokens", "warned"), [(80, ()), (81, ("tokens",)), (200, ("tokens",))], ids=str
)
def test_a_dimension_that_passed_four_fifths_warns(tokens, warned):
    assert budgets.new_warnings(budget({"tokens": tokens}, tokens=100))[1] == warned


def test_each_dimension_warns_once():
    envelope, first = budgets.new_warnings(budget({"tokens": 90}, tokens=100, wall_time=10))
    assert first == ("tokens",)
    envelope, second = budgets.new_warnings(envelope, wall_time=9)
    assert second == ("wall_time",)
    assert budgets.new_warnings(envelope, wall_time=9)[1] == ()


# Amending


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tokens": 49}, "budget.tokens: 49 is below the 50 already spent"),
        ({"cost_usd": 0.4}, "budget.cost_usd: 0.4 is below the 0.5 already spent"),
        ({"wall_time": 9}, "budget.wall_time: 9 is below the 10 already spent; set it higher"),
    ],
    ids=str,
)
def test_no_limit_below_what_is_spent(changes, problem):
    spent = budget({"tokens": 50, "cost_usd": Decimal("0.5")}, tokens=100, cost_usd=1)
    with pytest.raises(ValueError, match=problem):
        amend(spent, changes, wall_time=10)


def test_amending_keeps_the_other_limits_and_what_is_held():
    held = budgets.reserve(budget(tokens=100, tool_calls=3), "a", Reservation(tokens=10))
    amended = amend(held, {"tokens": 500}, wall_time=0)
    assert (amended.limits.tokens, amended.limits.tool_calls) == (500, 3)
    assert amended.reserved == held.reserved


def test_a_wrong_limit_is_refused():
    with pytest.raises(ValueError, match="iterations"):
        amend(budget(), {"iterations": 20_000}, wall_time=0)


@pytest.mark.parametrize(
    ("refused", "text"),
    [
        (LimitReached(dimension="cost", spent=Decimal("2.030"), limit=Decimal("2.00")),
         "cost: 2.03 of 2 USD"),
        (LimitReached(dimension="active_time", spent=Decimal("300.5"), limit=Decimal(300)),
         "active_time: 300.5 of 300 s"),
        (LimitReached(dimension="tokens", spent=Decimal(200_000), limit=Decimal(100_000)),
         "tokens: 200000 of 100000"),
    ],
)  # fmt: skip
def test_a_limit_names_itself_and_the_figure(refused, text):
    assert refused.text == text


@pytest.mark.parametrize(
    ("state", "asked", "kept", "found"),
    [
        ({}, {}, {}, {}),
        ({"tokens": 7}, {"tokens": 9}, {"tokens": 9}, {"tokens": 7}),
        ({"tokens": 7}, {"tokens": 9}, {"tokens": 20}, {"tokens": 20}),
        ({"cost_usd": "1"}, {"cost_usd": "1"}, {"cost_usd": None}, {"cost_usd": None}),
        (
            {"tokens": 7, "wall_time": 60},
            {"tokens": 9, "wall_time": 60},
            {"tokens": 9, "wall_time": 90},
            {"tokens": 7, "wall_time": 90},
        ),
    ],
    ids=["nothing", "narrowed by the kind", "raised", "lifted", "one of two"],
)
def test_what_people_changed_of_the_limits_is_kept(
    state: Mapping[str, Any], asked: Mapping[str, Any], kept: Mapping[str, Any], found: Any
) -> None:
    limits = [budget(**one).limits for one in (state, asked, kept, found)]
    assert with_amendments(limits[0], asked=limits[1], kept=limits[2]) == limits[3]
