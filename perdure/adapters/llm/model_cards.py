"""The card of a model, from the bundled price list and what is known of its family.

A model that the list does not know has no card; nothing here ever guesses a price.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.types import PriceCalculation, TieredPrices

from perdure.adapters.llm.abilities import abilities_of, max_output_of, openai_facts
from perdure.adapters.llm.vision import vision_of
from perdure.adapters.settings.providers import CompatibleServer
from perdure.domain.llm.requests import ModelProfile, Price

DEFAULT_WINDOW = 200_000
# Of models behind other interfaces, where nobody says it: what most of them can do.
DEFAULT_OPEN_WINDOW = 32_768
DEFAULT_OPEN_OUTPUT = 8_192
FREE = Price(input_per_million=Decimal(0), output_per_million=Decimal(0))


def snapshot_card(model: str, *, wire: str, provider: str) -> ModelProfile | None:
    """The card of a model that a provider serves under the name `wire`; None for an unknown one."""
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
    """`claude-…` in the names that other houses give it."""
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
        max_output=min(facts.max_output, max(window // 2, 1)),
        thinking=facts.thinking,
        effort=facts.effort,
        sampling=facts.sampling,
        cache=(),
        attachments=vision.takes,
        attachment_factor=vision.factor,
    )


def compatible_card(model: str, wire: str, server: CompatibleServer) -> ModelProfile:
    """The card of a model behind a compatible server: what its entry says, then the snapshot."""
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
    found: PriceCalculation,
    units: Mapping[str, Decimal | TieredPrices | None],
    *,
    otherwise: int,
) -> int:
    # A price has one tier here: the window ends where the provider's next tier begins.
    return min([found.model.context_window or otherwise, *_tier_starts(units.values())])


def _base_price(
    units: Mapping[str, Decimal | TieredPrices | None], *, cached_apart: bool = False
) -> Price | None:
    """The price; `cached_apart`: what is not told of the cache costs as much as plain input."""
    base = {name: _base(price) for name, price in units.items()}
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


def _base(price: Decimal | TieredPrices | None) -> Decimal | None:
    return price.base if isinstance(price, TieredPrices) else price


def _tier_starts(prices: Iterable[Decimal | TieredPrices | None]) -> list[int]:
    return [
        tier.start for price in prices if isinstance(price, TieredPrices) for tier in price.tiers
    ]
