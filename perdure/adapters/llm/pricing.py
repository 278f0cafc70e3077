"""Prices, windows and abilities of models: the bundled list, overridden by the operator's sheet.

A model that is in neither has no profile: no price is ever guessed, or taken to be 0. What a call
costs by its price is computed in `perdure.domain.llm.requests` (`Price.cost`).
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType

from genai_prices.data_snapshot import get_snapshot
from pydantic import Field, ValidationError

from perdure.adapters.llm.abilities import vision_of
from perdure.adapters.llm.embedded_facts import CARD, LOCAL_NAME, MODEL_NAME
from perdure.adapters.llm.model_cards import compatible_card, snapshot_card
from perdure.adapters.llm.model_names import PRICED_AS, model_name
from perdure.adapters.settings.providers import CompatibleServer
from perdure.adapters.stores.clock import utc_now
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.names import COMPATIBLE
from perdure.domain.foundation.problems import problems_of
from perdure.domain.llm.file_signatures import AttachmentKind
from perdure.domain.llm.requests import Effort, ModelProfile, Price, ThinkingWay
from perdure.strict_yaml import parse
from perdure.text_files import read_text

PROVIDER = "anthropic"
# Elsewhere, models are Claude's: what their cache costs follows from the input price by factors.
_CACHED_APART = frozenset({"openai", "azure", COMPATIBLE})
_CACHE_PRICES = (
    "cache_read_per_million", "cache_write_5m_per_million", "cache_write_1h_per_million",
)  # fmt: skip


class SheetEntry(FrozenModel):
    """One model in the operator's sheet; what is left out comes from the bundled list."""

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
    attachments: tuple[AttachmentKind, ...] | None = None
    attachment_factor: float | None = Field(default=None, gt=0)


class PriceSheet(FrozenModel):
    """The operator's file: `models:` by exact name."""

    models: dict[str, SheetEntry] = {}


class ModelPrices:
    """The price book of an installation; `now` says the day whose prices count, in UTC."""

    def __init__(
        self,
        sheet: PriceSheet | None = None,
        servers: Mapping[str, CompatibleServer] = MappingProxyType({}),
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._sheet: Mapping[str, SheetEntry] = sheet.models if sheet else {}
        self._servers = servers
        self._now = now
        self._day: date | None = None
        self._known: dict[str, ModelProfile | None] = {}

    def card(self, model: str) -> ModelProfile | None:
        """The profile of a model; None if neither the list nor the sheet knows it."""
        # The sheet cannot change the embedded model, which is free and has one known window.
        if model in {LOCAL_NAME, MODEL_NAME}:
            return CARD
        # A worker runs for months, and providers change their prices from a day on.
        if (today := self._now().date()) != self._day:
            self._day, self._known = today, {}
        if model not in self._known:
            self._known[model] = self._card(model, today)
        known = self._known[model]
        entry = self._sheet.get(model)
        return _overridden(entry, known or unknown_card(model)) if entry else known

    def sure_card(self, model: str) -> ModelProfile:
        """The profile of a model; without a price if neither the list nor the sheet knows it."""
        return self.card(model) or unknown_card(model)

    def _card(self, model: str, day: date) -> ModelProfile | None:
        named = model_name(model)
        if named.provider != COMPATIBLE:
            owner = PRICED_AS[named.provider or PROVIDER]
            return snapshot_card(model, wire=named.model, provider=owner, day=day)
        server = self._servers.get(named.server)
        wire = named.model or (server and server.model)
        return compatible_card(model, wire, server, day) if server and wire else None

    def own_names(self) -> tuple[str, ...]:
        """The names in the operator's sheet."""
        return tuple(self._sheet)

    def known_names(self) -> tuple[str, ...]:
        """The names to suggest for a typo."""
        providers = get_snapshot().providers
        models = {m.id for owner in providers if owner.id == PROVIDER for m in owner.models}
        return tuple(sorted({LOCAL_NAME, *self._sheet, *models}))


def unknown_card(model: str) -> ModelProfile:
    """The profile of a model behind a Messages API that neither the list nor the sheet knows.

    The newest models refuse a temperature, so none is sent unless a task asks for one.
    """
    vision = vision_of(model_name(model).model or model)
    return ModelProfile(
        name=model,
        price=None,
        sampling=False,
        attachments=vision.takes,
        attachment_factor=vision.factor,
    )


def load_price_sheet(path: Path) -> PriceSheet:
    """Read the operator's sheet (YAML).

    Raises:
        NotFound: there is no such file.
        InvalidInput: names every problem, with its path, what was found and what is allowed.
    """
    value = parse(read_text(path), named=f"The price sheet {path}")
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
    # Not merged into the list's price: Claude's cache prices follow from the sheet's input price.
    price = Price.model_validate(
        {name: value for name, value in stated.items() if name in Price.model_fields}
    )
    if model_name(known.name).provider in _CACHED_APART:
        price = _with_cache(price, known.price)
    facts = {name: value for name, value in stated.items() if name not in Price.model_fields}
    return known.model_copy(update={"price": price, **facts})


def _with_cache(price: Price, listed: Price | None) -> Price:
    """The price with the cache prices that the sheet left out, from the list or as plain input."""
    missing: dict[str, Decimal] = {}
    for name in (one for one in _CACHE_PRICES if getattr(price, one) is None):
        of_list: Decimal | None = getattr(listed, name, None)
        # Where the list has no such price, a card repeats the list's input price, not the sheet's.
        if of_list is None or listed is None or of_list == listed.input_per_million:
            of_list = price.input_per_million
        missing[name] = of_list
    return price.model_copy(update=missing)
