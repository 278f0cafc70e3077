"""Profiles of models, from the bundled price list and the facts of their family.

A model that the list does not know has no profile: no price is ever guessed.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal

from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.types import ModelInfo, TieredPrices, TimeOfDateConstraint

from perdure.adapters.llm.abilities import abilities_of, max_output_of, openai_facts, vision_of
from perdure.adapters.settings.providers import CompatibleServer
from perdure.domain.llm.requests import ModelProfile, Price

DEFAULT_WINDOW = 200_000
# For models behind other APIs if nothing states it: most of them can do at least this.
DEFAULT_OPEN_WINDOW = 32_768
DEFAULT_OPEN_OUTPUT = 8_192
FREE = Price(input_per_million=Decimal(0), output_per_million=Decimal(0))

Units = Mapping[str, Decimal | TieredPrices | None]


def snapshot_card(model: str, *, wire: str, provider: str, day: date) -> ModelProfile | None:
    """The profile of a model that a provider serves as `wire`; None if the list has no such one."""
    try:
        found = calc_price(PricedUsage(input_tokens=0), wire, provider_id=provider).model
    except LookupError:
        return None
    if provider == "anthropic" or "claude" in found.id:
        return _claude_card(model, found, day)
    return _openai_card(model, wire, found, day)


def _claude_card(model: str, found: ModelInfo, day: date) -> ModelProfile:
    units = _of_day(found, day)
    window = _window(found, units, otherwise=DEFAULT_WINDOW)
    name = _family_name(found.id)
    abilities, vision = abilities_of(name), vision_of(name)
    return ModelProfile(
        name=model,
        price=_price(units, window=window),
        window=window,
        max_output=max_output_of(name),
        thinking=abilities.thinking,
        effort=abilities.effort,
        sampling=False,
        attachments=vision.takes,
        attachment_factor=vision.factor,
    )


def _family_name(name: str) -> str:
    """The part from `claude-` on: clouds put a region or a publisher before it."""
    at = name.find("claude")
    return name[at:] if at > 0 else name


def _openai_card(model: str, wire: str, found: ModelInfo, day: date) -> ModelProfile:
    units = _of_day(found, day)
    facts, vision = openai_facts(wire), vision_of(wire)
    window = _window(found, units, otherwise=DEFAULT_OPEN_WINDOW)
    return ModelProfile(
        name=model,
        price=_price(units, window=window, cached_apart=True),
        window=window,
        # At least half of the window stays for the prompt.
        max_output=min(facts.max_output, max(window // 2, 1)),
        thinking=facts.thinking,
        effort=facts.effort,
        sampling=facts.sampling,
        cache=(),
        attachments=vision.takes,
        attachment_factor=vision.factor,
    )


def compatible_card(model: str, wire: str, server: CompatibleServer, day: date) -> ModelProfile:
    """The profile of a model behind a compatible server, from its entry and the price list."""
    window, price = server.window, FREE if server.free else None
    if price is None:
        try:
            found = calc_price(PricedUsage(input_tokens=0), wire, provider_api_url=server.url).model
        except LookupError:
            pass
        else:
            units = _of_day(found, day)
            window = window or _window(found, units, otherwise=DEFAULT_OPEN_WINDOW)
            price = _price(units, window=window, cached_apart=True)
    window = window or DEFAULT_OPEN_WINDOW
    return ModelProfile(
        name=model,
        price=price,
        window=window,
        max_output=server.max_output or min(DEFAULT_OPEN_OUTPUT, max(window // 4, 1)),
        tools=server.tools,
        judges=server.judges,
        small=server.small,
        thinking=(),
        effort=server.effort,
        cache=(),
        attachments=server.attachments,
        attachment_factor=server.attachment_factor,
    )


def _of_day(model: ModelInfo, day: date) -> list[Units]:
    """All prices of a model on a day, in UTC: some cost more at certain hours."""
    conditions = model.prices if isinstance(model.prices, list) else []
    hours = [
        one.constraint for one in conditions if isinstance(one.constraint, TimeOfDateConstraint)
    ]
    changes = {time(), *(at for one in hours for at in (one.start_time, one.end_time))}
    moments = [
        datetime.combine(day, at if at.tzinfo is not None else at.replace(tzinfo=UTC))
        for at in changes
    ]
    return [vars(model.get_prices(moment)) for moment in moments]


def _window(model: ModelInfo, units: Sequence[Units], *, otherwise: int) -> int:
    # Our profile has one price, so the window ends where a dearer tier of the provider begins.
    tiered = [price for one in units for price in one.values() if isinstance(price, TieredPrices)]
    starts = [tier.start for price in tiered for tier in price.tiers]
    return min([model.context_window or otherwise, *starts])


def _price(units: Sequence[Units], *, window: int, cached_apart: bool = False) -> Price | None:
    """The dearest price of each kind of token that a prompt within the window may have.

    `cached_apart`: a cache without a price of its own costs as much as input.
    """
    prices = [_price_of(one, window=window, cached_apart=cached_apart) for one in units]
    known = [price for price in prices if price is not None]
    if len(known) < len(prices):
        return None
    kinds = (name for name in Price.model_fields if name.endswith("_per_million"))
    dearest = {name: _dearest(getattr(price, name) for price in known) for name in kinds}
    return Price.model_validate(dearest)


def _price_of(units: Units, *, window: int, cached_apart: bool) -> Price | None:
    reached = {name: _reached(price, window) for name, price in units.items()}
    plain, output = reached.get("input_mtok"), reached.get("output_mtok")
    # A fee for each request has no place in our price: without it, calls would be booked too low.
    if plain is None or output is None or reached.get("requests_kcount"):
        return None
    missing = plain if cached_apart else None
    return Price(
        input_per_million=plain,
        output_per_million=output,
        cache_read_per_million=_or(reached.get("cache_read_mtok"), missing),
        cache_write_5m_per_million=_or(reached.get("cache_write_mtok"), missing),
        cache_write_1h_per_million=_or(reached.get("cache_write_1h_mtok"), missing),
    )


def _reached(price: Decimal | TieredPrices | None, window: int) -> Decimal | None:
    """The dearest price that a prompt within the window may come to."""
    if not isinstance(price, TieredPrices):
        return price
    # A prompt beyond the start of a tier pays its price for all tokens.
    return max([price.base, *(tier.price for tier in price.tiers if tier.start < window)])


def _dearest(prices: Iterable[Decimal | None]) -> Decimal | None:
    return max((price for price in prices if price is not None), default=None)


def _or(price: Decimal | None, otherwise: Decimal | None) -> Decimal | None:
    return otherwise if price is None else price
