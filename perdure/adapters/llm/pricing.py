"""What models cost, hold and understand: bundled prices with the operator's price sheet above.

The price snapshot does not say it. Families that came after this table are left open: what they do
not take, the provider refuses in its own words.

A model that neither knows has no card; nothing here ever guesses a price or says 0 for it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import yaml
from genai_prices import Usage as PricedUsage
from genai_prices import calc_price
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import TieredPrices
from pydantic import Field, ValidationError

from perdure.adapters.llm.embedded_facts import CARD, LOCAL_NAME, MODEL_NAME
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import problems_of
from perdure.domain.llm.requests import Effort, ModelProfile, Price, ThinkingWay

_TOKENS: tuple[ThinkingWay, ...] = ("off", "tokens")
_BOTH: tuple[ThinkingWay, ...] = ("off", "adaptive", "tokens")


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a family takes; None where this is not known."""

    thinking: tuple[ThinkingWay, ...] | None = None
    effort: tuple[Effort, ...] | None = None


_NONE = Abilities(thinking=(), effort=())
_EXTENDED = Abilities(thinking=_TOKENS, effort=())
_FAMILIES = {
    "claude-2": _NONE,
    "claude-instant": _NONE,
    "claude-v1": _NONE,
    "claude-1": _NONE,
    "claude-3-": _NONE,
    "claude-3-7-": _EXTENDED,
    "claude-opus-4-0": _EXTENDED,
    "claude-opus-4-1": _EXTENDED,
    "claude-opus-4-2025": _EXTENDED,
    "claude-sonnet-4-0": _EXTENDED,
    "claude-sonnet-4-2025": _EXTENDED,
    "claude-sonnet-4-5": _EXTENDED,
    "claude-haiku-4-5": _EXTENDED,
    "claude-opus-4-5": Abilities(thinking=_TOKENS, effort=("low", "medium", "high")),
    "claude-opus-4-6": Abilities(thinking=_BOTH, effort=("low", "medium", "high", "max")),
}


def abilities_of(model: str) -> Abilities:
    """What a model can be told; the longest start of its name decides."""
    starts = [start for start in _FAMILIES if model.startswith(start)]
    return _FAMILIES[max(starts, key=len)] if starts else Abilities()


PROVIDER = "anthropic"
DEFAULT_WINDOW = 200_000
DEFAULT_MAX_OUTPUT = 64_000
# The snapshot has no output limits; by family, the longest matching start wins.
MAX_OUTPUT = {
    "claude-2": 4_096,
    "claude-3-": 4_096,
    "claude-3-5-": 8_192,
    "claude-3-7-": 64_000,
    "claude-opus-4-0": 32_000,
    "claude-opus-4-1": 32_000,
    "claude-v1": 4_096,
}


class SheetEntry(FrozenModel):
    """One model in the operator's sheet; what is left out comes from the snapshot."""

    input_per_million: Decimal = Field(ge=0)
    output_per_million: Decimal = Field(ge=0)
    cache_read_per_million: Decimal | None = Field(default=None, ge=0)
    cache_write_5m_per_million: Decimal | None = Field(default=None, ge=0)
    cache_write_1h_per_million: Decimal | None = Field(default=None, ge=0)
    window: int | None = Field(default=None, ge=1)
    max_output: int | None = Field(default=None, ge=1)
    tools: bool | None = None
    judges: bool | None = None
    small: bool | None = None
    thinking: tuple[ThinkingWay, ...] | None = None
    effort: tuple[Effort, ...] | None = None
    sampling: bool | None = None


class PriceSheet(FrozenModel):
    """The operator's file: `models:` by exact name."""

    models: dict[str, SheetEntry] = {}


class ModelPrices:
    """The price book of an installation."""

    def __init__(self, sheet: PriceSheet | None = None) -> None:
        self._sheet: Mapping[str, SheetEntry] = sheet.models if sheet else {}
        self._known: dict[str, ModelProfile | None] = {}

    def card(self, model: str) -> ModelProfile | None:
        """The card of a model that the book knows, else None."""
        if model in {LOCAL_NAME, MODEL_NAME}:
            return CARD
        if model not in self._known:
            self._known[model] = _snapshot_card(model)
        known = self._known[model]
        entry = self._sheet.get(model)
        return _overridden(entry, known or unknown_card(model)) if entry else known

    def own_names(self) -> tuple[str, ...]:
        """The names that the operator's sheet has."""
        return tuple(self._sheet)

    def known_names(self) -> tuple[str, ...]:
        """The names to suggest for a typo."""
        providers = get_snapshot().providers
        models = {m.id for owner in providers if owner.id == PROVIDER for m in owner.models}
        return tuple(sorted({LOCAL_NAME, *self._sheet, *models}))


def unknown_card(model: str) -> ModelProfile:
    """What is known of a model behind a Messages API that no price book knows.

    The newest models take no temperature, so that nobody is sent one unasked.
    """
    return ModelProfile(name=model, price=None, sampling=False)


def load_price_sheet(path: Path) -> PriceSheet:
    """Read the operator's sheet (YAML).

    Raises:
        InvalidInput: with every problem, its path, what was found and what is allowed.
    """
    try:
        value: object = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(
            f"The price sheet {path} cannot be read: {error}", cure="Correct the file."
        ) from error
    try:
        return PriceSheet.model_validate(value or {})
    except ValidationError as error:
        names = {*PriceSheet.model_fields, *SheetEntry.model_fields}
        lines = "".join(f"\n  {problem}" for problem in problems_of(error, value, names=names))
        raise InvalidInput(
            f"The price sheet {path} is wrong:{lines}", cure="\nCorrect the file."
        ) from None


def _overridden(entry: SheetEntry, known: ModelProfile) -> ModelProfile:
    stated = entry.model_dump(exclude_none=True)
    price = Price.model_validate(
        {name: value for name, value in stated.items() if name in Price.model_fields}
    )
    facts = {name: value for name, value in stated.items() if name not in Price.model_fields}
    return known.model_copy(update={"price": price, **facts})


def _snapshot_card(model: str) -> ModelProfile | None:
    try:
        found = calc_price(PricedUsage(input_tokens=0), model, provider_id=PROVIDER)
    except LookupError:
        return None
    units: dict[str, Decimal | TieredPrices | None] = vars(found.model_price)
    # A price has one tier here: the window ends where the provider's next tier begins.
    window = min([found.model.context_window or DEFAULT_WINDOW, *_tier_starts(units.values())])
    abilities = abilities_of(found.model.id)
    return ModelProfile(
        name=model,
        price=_base_price(units),
        window=window,
        max_output=_max_output(found.model.id),
        thinking=abilities.thinking,
        effort=abilities.effort,
        sampling=False,
    )


def _base_price(units: Mapping[str, Decimal | TieredPrices | None]) -> Price | None:
    base = {name: _base(price) for name, price in units.items()}
    plain, output = base.get("input_mtok"), base.get("output_mtok")
    if plain is None or output is None:
        return None
    return Price(
        input_per_million=plain,
        output_per_million=output,
        cache_read_per_million=base.get("cache_read_mtok"),
        cache_write_5m_per_million=base.get("cache_write_mtok"),
        cache_write_1h_per_million=base.get("cache_write_1h_mtok"),
    )


def _base(price: Decimal | TieredPrices | None) -> Decimal | None:
    return price.base if isinstance(price, TieredPrices) else price


def _tier_starts(prices: Iterable[Decimal | TieredPrices | None]) -> list[int]:
    return [
        tier.start for price in prices if isinstance(price, TieredPrices) for tier in price.tiers
    ]


def _max_output(model: str) -> int:
    starts = [start for start in MAX_OUTPUT if model.startswith(start)]
    return MAX_OUTPUT[max(starts, key=len)] if starts else DEFAULT_MAX_OUTPUT
