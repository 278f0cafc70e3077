"""Profiles of models, from the bundled price list and the facts of their family.

A model that the list does not know has no profile: no price is ever guessed.
"""

from collections.abc import Mapping
from decimal import Decimal

from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.types import PriceCalculation, TieredPrices

from perdure.adapters.llm.abilities import abilities_of, max_output_of, openai_facts, vision_of
from perdure.adapters.settings.providers import CompatibleServer
from perdure.domain.llm.requests import ModelProfile, Price

DEFAULT_WINDOW = 200_000
# For models behind other APIs if nothing states it: most of them can do at least this.
DEFAULT_OPEN_WINDOW = 32_768
DEFAULT_OPEN_OUTPUT = 8_192
FREE = Price(input_per_million=Decimal(0), output_per_million=Decimal(0))


def snapshot_card(model: str, *, wire: str, provider: str) -> ModelProfile | None:
    """The profile of a model that a provider serves as `wire`; None if the list has no such one."""
    try:
        found = calc_price(PricedUsage(input_tokens=0), wire, provider_id=provider)
    except LookupError:
        return None
    if provider == "anthropic" or "claude" in found.model.id:
        return _claude_card(model, found)
    return _openai_card(model, wire, found)


def _claude_card(model: str, found: PriceCalculation) -> ModelProfile:
    units = _units(found)
    name = _family_name(found.model.id)
    abilities, vision = abilities_of(name), vision_of(name)
    return ModelProfile(
        name=model,
        price=_base_price(units),
        window=_window(found, units, otherwise=DEFAULT_WINDOW),
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


def _openai_card(model: str, wire: str, found: PriceCalculation) -> ModelProfile:
    units = _units(found)
    facts, vision = openai_facts(wire), vision_of(wire)
    window = _window(found, units, otherwise=DEFAULT_OPEN_WINDOW)
    return ModelProfile(
        name=model,
        price=_base_price(units, cached_apart=True),
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


def compatible_card(model: str, wire: str, server: CompatibleServer) -> ModelProfile:
    """The profile of a model behind a compatible server, from its entry and the price list."""
    window, price = server.window, FREE if server.free else None
    if price is None:
        try:
            found = calc_price(PricedUsage(input_tokens=0), wire, provider_api_url=server.url)
        except LookupError:
            pass
        else:
            units = _units(found)
            price = _base_price(units, cached_apart=True)
            window = window or _window(found, units, otherwise=DEFAULT_OPEN_WINDOW)
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


def _units(found: PriceCalculation) -> Mapping[str, Decimal | TieredPrices | None]:
    units: dict[str, Decimal | TieredPrices | None] = vars(found.model_price)
    return units


def _window(
    found: PriceCalculation, units: Mapping[str, Decimal | TieredPrices | None], *, otherwise: int
) -> int:
    # Our profile has one price, so the window ends where a dearer tier of the provider begins.
    tiers = [price.tiers for price in units.values() if isinstance(price, TieredPrices)]
    starts = [tier.start for several in tiers for tier in several]
    return min([found.model.context_window or otherwise, *starts])


def _base_price(
    units: Mapping[str, Decimal | TieredPrices | None], *, cached_apart: bool = False
) -> Price | None:
    """The price; `cached_apart`: a cache without a price of its own costs as much as input."""
    base = {
        name: price.base if isinstance(price, TieredPrices) else price
        for name, price in units.items()
    }
    plain, output = base.get("input_mtok"), base.get("output_mtok")
    if plain is None or output is None:
        return None
    missing = plain if cached_apart else None
    return Price(
        input_per_million=plain,
        output_per_million=output,
        cache_read_per_million=_or(base.get("cache_read_mtok"), missing),
        cache_write_5m_per_million=_or(base.get("cache_write_mtok"), missing),
        cache_write_1h_per_million=_or(base.get("cache_write_1h_mtok"), missing),
    )


def _or(price: Decimal | None, otherwise: Decimal | None) -> Decimal | None:
    return otherwise if price is None else price
