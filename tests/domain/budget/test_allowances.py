"""What a call must have before it is made: room for its schema, and for its judging."""

from decimal import Decimal
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.budget.accounting import (
    MIN_OUTPUT_TOKENS,
    Budget,
    BudgetLimits,
    CallFit,
    LimitReached,
    fit_call,
    reserve,
    worst_cost,
)
from perdure.domain.budget.allowances import (
    ReplyKind,
    judged_reply,
    judging,
    least_output,
    reviewed_room,
)
from perdure.domain.llm.requests import ModelProfile, Price
from perdure.domain.llm.usage import Usage

PRICE = Price(input_per_million=Decimal(3), output_per_million=Decimal(15))
DEAR = Price(input_per_million=Decimal(15), output_per_million=Decimal(75))
OPEN = {"tokens": None, "cost_usd": None, "active_time": None, "wrap_up": 0}


def budget(**limits: Any) -> Budget:
    return Budget(limits=BudgetLimits.model_validate({**OPEN, **limits}))


@pytest.mark.parametrize("kind", get_args(ReplyKind))
def test_every_kind_of_reply_has_a_least_output(kind: ReplyKind) -> None:
    assert least_output(kind) >= MIN_OUTPUT_TOKENS
    assert least_output(kind, items=3) >= least_output(kind)


def test_more_dimensions_need_more() -> None:
    assert least_output("judgement", items=10) > least_output("judgement", items=1)


@pytest.mark.parametrize(
    ("tokens", "wanted", "fits"),
    [(100 + 95, 1000, False), (100 + 96, 1000, True), (100 + 40, 40, True)],
    ids=["one less than the schema needs", "just enough", "no more is wanted"],
)
def test_a_structured_call_with_less_than_its_schema_needs_is_not_made(
    tokens: int, wanted: int, fits: bool
) -> None:
    fit = fit_call(
        budget(tokens=tokens), prompt_tokens=100, wanted=wanted, price=None,
        least=least_output("plan"),
    )  # fmt: skip
    assert isinstance(fit, CallFit) is fits


@given(
    limits=st.fixed_dictionaries(
        {
            "tokens": st.none() | st.integers(1, 30_000),
            "cost_usd": st.none() | st.decimals("0.001", 1, places=3),
        }
    ),
    prompt=st.integers(1, 3_000),
    judges=st.lists(st.sampled_from([PRICE, DEAR]), min_size=1, max_size=3),
    expected=st.integers(16, 4_000),
    fixed=st.integers(1, 1_000),
)
def test_a_draft_of_the_longest_permitted_length_can_be_judged(
    limits: dict[str, Any], prompt: int, judges: list[Price], expected: int, fixed: int
) -> None:
    """Whatever is written within the cap, each judge's prompt and verdict are still affordable."""
    before = budget(**limits)
    held = reserve(
        before, "judging", judging([(p, 256) for p in judges], prompt_tokens=fixed + expected)
    )
    longest = judged_reply(
        held, prompt_tokens=prompt, price=PRICE, judges=judges, expected=expected
    )
    wanted = 64_000 if longest is None else longest
    fit = fit_call(held, prompt_tokens=prompt, wanted=wanted, price=PRICE)
    if wanted < MIN_OUTPUT_TOKENS or isinstance(fit, LimitReached):
        return
    draft = fit.max_tokens
    read = Usage(input_tokens=fixed + draft, output_tokens=256)
    if limits["tokens"]:
        each = read.input_tokens + read.output_tokens
        assert prompt + draft + len(judges) * each <= limits["tokens"]
    if limits["cost_usd"]:
        paid = fit.amounts.cost_usd + sum(worst_cost(price, read) for price in judges)
        assert paid <= limits["cost_usd"]


def test_without_limits_a_draft_is_as_long_as_it_likes() -> None:
    found = judged_reply(budget(), prompt_tokens=9, price=PRICE, judges=[PRICE], expected=16)
    assert found is None


def test_a_prompt_that_is_kept_for_an_hour_is_reserved_at_its_price() -> None:
    price = Price(input_per_million=Decimal(4), output_per_million=Decimal(20))
    card = ModelProfile(name="m", price=price)
    prompt = Usage(input_tokens=1_000_000)
    assert worst_cost(card.cached_for("5m").price, prompt) == Decimal(5)
    assert worst_cost(card.cached_for("1h").price, prompt) == Decimal(8)
    written = Usage(cache_write_1h_tokens=1_000_000)
    assert price.cost(written) == Decimal(8)


@pytest.mark.parametrize(
    ("limits", "window", "room"),
    [
        ({}, 200_000, 100_000),
        ({"tokens": 40_000}, 200_000, 10_000),
        ({"tokens": 40_000}, 8_000, 4_000),
        ({"cost_usd": "0.15"}, 200_000, 10_000),
    ],
    ids=["the window", "the tokens", "the smaller one", "the money"],
)
def test_a_review_shows_what_the_model_and_the_budget_take(
    limits: dict[str, Any], window: int, room: int
) -> None:
    found = reviewed_room(budget(**limits), price=PRICE, window=window)
    assert 0.75 * room <= found <= room
