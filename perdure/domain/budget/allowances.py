"""What one call, the last call and a child run may spend of a run's budget.

If a worker dies or a stream is cut, the provider bills what it had produced, or the whole reply,
without telling anybody. The prompt's size is known. The output is estimated as twice the larger of
two figures: what was streamed, and the run's typical reply. Why twice: replies differ severalfold
in length, and a worker's death is likelier to hit a long one. Over many deaths the sum does not
fall below the bill, and stays far from the worst case of twenty times a typical reply.
"""

import math
from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Literal

from perdure.domain.budget.accounting import (
    MIN_OUTPUT_TOKENS,
    MOST,
    SPLIT,
    Budget,
    BudgetLimits,
    Dimension,
    LimitReached,
    Reservation,
    exhausted_limit,
    reserve,
    worst_cost,
)
from perdure.domain.foundation.base import ActivityMessage
from perdure.domain.foundation.retry_policies import PROVIDER_ATTEMPTS
from perdure.domain.llm.requests import Price
from perdure.domain.llm.usage import Usage


class Allowance(ActivityMessage):
    """What all attempts of one call may use together, and the time left for it.

    `factor` is the model's calibration of token estimates; `active_time_s` what remains of the
    run's active time, `attempts` what remains of its model calls, `output_tokens` of its output
    (None: unlimited). The provider has `tries`, of which `tried` failed before, under another
    reservation, by `first_step` (empty: this is the first), `waited_s` ago the first of them. It is
    waited for `patience_s` in all (None: as long as it has tries). `typical_output` is the length
    to expect by the run's replies in this role; with less room than `least` for it the call is not
    sent. With `count_cache_reads`, tokens read from a provider's cache count as the others do.
    """

    max_tokens: int
    tokens: int | None = None
    cost_usd: Decimal | None = None
    factor: float = 1.0
    active_time_s: float | None = None
    attempts: int | None = None
    output_tokens: int | None = None
    tries: int = PROVIDER_ATTEMPTS
    tried: int = 0
    typical_output: int | None = None
    first_step: str = ""
    patience_s: float | None = None
    waited_s: float = 0.0
    least: int = MIN_OUTPUT_TOKENS
    count_cache_reads: bool = False


# Twice what was streamed, or the usual length. With half as much again, the books lay below the
# provider's bill in one of six runs with three deaths; with twice, in none of six thousand.
MARGIN = 2
# One or two short replies say little of the next: the mean counts two of an agent's usual length.
USUAL_REPLY_TOKENS = 512
USUAL_REPLIES = 2


def typical_output(*, replies: int, tokens: int) -> int:
    """The output tokens to expect of a reply after so many of its like, `tokens` long together."""
    known = tokens + USUAL_REPLIES * USUAL_REPLY_TOKENS
    return math.ceil(known / (replies + USUAL_REPLIES))


def presumed(
    seen: Usage | None, *, prompt_tokens: int, max_tokens: int, typical_output: int | None
) -> Usage:
    """The usage to book for an attempt whose end is unknown.

    Args:
        seen: the prompt as the provider reported it at the head of its answer, with our count of
            what was streamed since; None when no answer had begun.
        prompt_tokens: the prompt by count or estimate, where the provider did not report it.
        max_tokens: no reply is longer.
        typical_output: what the run's own replies let expect; None where nobody said.
    """
    streamed = 0 if seen is None else seen.output_tokens
    usual = USUAL_REPLY_TOKENS if typical_output is None else typical_output
    output = max(min(MARGIN * max(streamed, usual), max_tokens), 0)
    if seen is None or not seen.prompt_tokens:
        return Usage(input_tokens=prompt_tokens, output_tokens=output)
    return seen.model_copy(update={"output_tokens": output})


# What a closing text is given where it can be had, and the least prompt that says anything.
CLOSING_TOKENS = 2_048
LEAST_CLOSING_PROMPT = 160


def closing_room(budget: Budget, *, price: Price | None) -> int | None:
    """The tokens that the prompt of a closing call may have, the reserve opened.

    A third of what is left is for its answer, as far as one needs it. None where not even the
    shortest prompt and a sentence fit.
    """
    answer, prompts = CLOSING_TOKENS, list[int]()
    tokens = budget.remaining("tokens", wrap_up=True)
    cost = budget.remaining("cost", wrap_up=True)
    output = budget.remaining("output_tokens", wrap_up=True)
    if output is not None:
        answer = min(answer, int(output))
    if tokens is not None:
        answer = min(answer, int(tokens) // 3)
    if cost is not None and price is not None and price.output_per_million:
        answer = min(answer, int(cost / 3 * 1_000_000 / price.output_per_million))
    if tokens is not None:
        prompts.append(int(tokens) - answer)
    if cost is not None and price is not None:
        each = worst_cost(price, Usage(input_tokens=1))
        left = cost - worst_cost(price, Usage(output_tokens=answer))
        prompts += [int(left / each)] if each else []
    calls = budget.remaining("model_calls", wrap_up=True)
    if answer < MIN_OUTPUT_TOKENS or (calls is not None and calls < 1):
        return None
    room = min(prompts, default=MOST)
    return room if room >= LEAST_CLOSING_PROMPT else None


# A reviewer sees whole files where it can, and leaves most of the budget to the work.
REVIEW_ROOM_DIVISOR = 4


def reviewed_room(budget: Budget, *, price: Price | None, window: int) -> int:
    """The tokens of the text that one question about finished work may show."""
    rooms = [window // 2]
    tokens, cost = budget.remaining("tokens"), budget.remaining("cost")
    if tokens is not None:
        rooms.append(int(tokens) // REVIEW_ROOM_DIVISOR)
    each = worst_cost(price, Usage(input_tokens=1))
    if cost is not None and each:
        rooms.append(int(cost / each) // REVIEW_ROOM_DIVISOR)
    return min(rooms)


# Of what remains each time, so that several siblings get 30, 21, 14 percent and never the whole.
CHILD_FRACTION = 0.3
CHILD_FRACTION_RANGE = (0.05, 0.95)
SMALLEST_MONEY = Decimal("0.000001")


def allocate_child(
    budget: Budget, key: str, *, fraction: float | None = None, siblings: int = 1
) -> tuple[Budget, BudgetLimits] | LimitReached:
    """Reserve a share of what remains for a child run, taken off the parent at once.

    The fraction is clamped to 0.05-0.95 (default `min(0.3, 0.8 / siblings)`); shares round down,
    but to no less than one unit, because a limit of zero would mean none; times are shared, not
    split. A child that has spent its share ends, since only the run above could give it more. A
    parent with an exhausted dimension refuses.
    """
    # A child without a share would start only to report that it cannot work.
    refused = exhausted_limit(budget)
    if refused is not None:
        return refused
    low, high = CHILD_FRACTION_RANGE
    wanted = min(CHILD_FRACTION, 0.8 / max(1, siblings)) if fraction is None else fraction
    # By its text: as a binary float 0.3 is a little less, and 30 of 100 would become 29.
    share = Decimal(str(min(high, max(low, wanted))))
    counted = {name: _share(budget, name, share) for name in SPLIT}
    money = _money(budget, share)
    held = Reservation(
        cost_usd=money or Decimal(0), **{name: part or 0 for name, part in counted.items()}
    )
    limits = budget.limits.model_copy(
        update={
            **counted,
            "cost_usd": money,
            # Of depth, zero is a limit and not the absence of one.
            "depth": max(0, budget.limits.depth - 1),
            "on_exhausted": "abort",
        }
    )
    return reserve(budget, key, held), limits


def _share(budget: Budget, dimension: Dimension, share: Decimal) -> int | None:
    left = budget.remaining(dimension)
    # Never zero: in a limit zero means unlimited.
    return None if left is None else max(1, int(left * share))


def _money(budget: Budget, share: Decimal) -> Decimal | None:
    left = budget.remaining("cost")
    if left is None:
        return None
    # Never zero, as above, and yet no more than is left.
    return max(min(left, SMALLEST_MONEY), (left * share).quantize(SMALLEST_MONEY, ROUND_DOWN))


ReplyKind = Literal[
    "text", "judgement", "plan", "learnings", "repair", "verdict", "goal", "decision", "review"
]
# The shortest JSON that satisfies each schema, with a few words where words are asked for. With
# less room a reply is cut off: it is paid for and useless.
_LEAST: dict[ReplyKind, int] = {
    "text": MIN_OUTPUT_TOKENS,
    "judgement": 32,
    "plan": 96,
    "learnings": 24,
    "repair": 96,
    "verdict": 24,
    "goal": 24,
    "decision": 64,
    "review": 32,
}
_LEAST_PER_ITEM: dict[ReplyKind, int] = {"judgement": 32, "review": 32}


def least_output(kind: ReplyKind, *, items: int = 0) -> int:
    """The least output that a kind of reply needs; `items` are dimensions or criteria in it."""
    return _LEAST[kind] + _LEAST_PER_ITEM.get(kind, 0) * items


def judged_reply(
    budget: Budget,
    *,
    prompt_tokens: int,
    price: Price | None,
    judges: Sequence[Price | None],
    expected: int,
) -> int | None:
    """The longest reply that its judges can still be paid to read; None for any length.

    Args:
        budget: with the judging of a reply of the `expected` length held back.
        prompt_tokens: of the call.
        price: of the model that replies.
        judges: the prices of those who read the reply, one each.
        expected: the length that is provided for.
    """
    found: list[int] = []
    tokens = budget.remaining("tokens")
    if tokens is not None:
        # Each token is paid once to be written, and once by every judge to be read; the reading of
        # `expected` tokens is held back already.
        found.append(int(tokens - prompt_tokens + expected * len(judges)) // (1 + len(judges)))
    cost = budget.remaining("cost")
    own = worst_cost(price, Usage(output_tokens=1))
    read = sum((worst_cost(each, Usage(input_tokens=1)) for each in judges), Decimal(0))
    if cost is not None and own + read:
        left = cost - worst_cost(price, Usage(input_tokens=prompt_tokens)) + expected * read
        found.append(int(left / (own + read)))
    return min(found, default=None)


def judging(judges: Sequence[tuple[Price | None, int]], *, prompt_tokens: int) -> Reservation:
    """What judges use at most: each has a price and the longest reply that is provided for."""
    used = [
        (price, Usage(input_tokens=prompt_tokens, output_tokens=reply)) for price, reply in judges
    ]
    return Reservation(
        tokens=sum(usage.input_tokens + usage.output_tokens for _, usage in used),
        output_tokens=sum(usage.output_tokens for _, usage in used),
        model_calls=len(used),
        cost_usd=sum((worst_cost(price, usage) for price, usage in used), Decimal(0)),
    )
