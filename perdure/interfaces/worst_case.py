"""The most that a run may spend: its limits, and what they mean in words."""

from collections.abc import Sequence
from decimal import Decimal

from perdure.domain.budget.accounting import worst_cost
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.tokens import TokenSizes, estimate
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.llm.usage import Usage
from perdure.domain.specs import Spec


class WorstCase(FrozenModel):
    """The most that a run may spend. No call starts that does not fit into the limits.

    `one_call_usd` is the price of one call that reads goal and inputs and writes all it may, by the
    dearest of the models.
    """

    tokens: int | None
    cost_usd: Decimal | None
    active_time_s: float | None
    wall_time_s: float | None
    model_calls: int | None
    tool_calls: int | None = None
    workers: int | None = None
    one_call_usd: Decimal | None
    sentence: str


def worst_case(
    spec: Spec, cards: Sequence[ModelProfile | None], sizes: TokenSizes | None = None
) -> WorstCase:
    """The limits in force, and the most that they allow.

    Args:
        spec: the run.
        cards: the profile of each model that does the work; None if unknown.
        sizes: what the goal and the inputs take of a prompt; without it only the goal is counted.
    """
    read = estimate(spec.goal) if sizes is None else sizes
    budget, life = spec.budget, spec.models.cache_life
    # Writing into a cache of an hour is dearer, and the limits reserve for that.
    cards = [card and card.cached_for(life) for card in cards]
    return WorstCase(
        tokens=budget.tokens or None,
        cost_usd=budget.cost_usd or None,
        active_time_s=budget.active_time or None,
        wall_time_s=budget.wall_time or None,
        model_calls=budget.model_calls or None,
        tool_calls=budget.tool_calls or None,
        workers=budget.workers or None,
        one_call_usd=max((_one_call(read, card) for card in _priced(cards)), default=None),
        sentence=_sentence(spec, cards),
    )


def _sentence(spec: Spec, cards: Sequence[ModelProfile | None]) -> str:
    limit, priced = spec.budget.cost_usd, _priced(cards)
    if len(priced) < len(cards) or not priced:
        if spec.budget.unknown_price == "block" and limit:
            return _blocked(cards)
        return "Unknown: the model has no known price."
    if all(_is_free(card) for card in priced):
        model = "this model costs" if len(priced) == 1 else "these models cost"
        return f"Nothing: {model} no money."
    if limit:
        return f"{limit} USD: no call starts that does not fit into what is left."
    tokens = spec.budget.tokens
    if not tokens:
        return "Unlimited: the run has neither a cost nor a token limit."
    most, dearest = max(
        (worst_cost(card.price, Usage(output_tokens=tokens)), card.name) for card in priced
    )
    return f"{most:.2f} USD, if all {tokens:,} tokens were written by {dearest}."


def _blocked(cards: Sequence[ModelProfile | None]) -> str:
    unpriced = [card.name for card in cards if card is not None and card.price is None]
    if len(cards) > 1 and unpriced:
        named = ", ".join(unpriced)
        return f"The price of {named} is unknown, so with a cost limit the run will not call it."
    return "The model's price is unknown, so with a cost limit the run will not call it."


def _priced(cards: Sequence[ModelProfile | None]) -> list[ModelProfile]:
    return [card for card in cards if card is not None and card.price is not None]


def _one_call(read: TokenSizes, card: ModelProfile) -> Decimal:
    prompt = read.text + card.attachment_tokens(read.media)
    usage = Usage(input_tokens=prompt, output_tokens=card.max_output)
    return worst_cost(card.price, usage)


def _is_free(card: ModelProfile) -> bool:
    price = card.price
    return price is not None and price.input_per_million == price.output_per_million == 0
