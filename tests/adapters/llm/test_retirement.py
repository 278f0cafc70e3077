"""Models that end: as the SDK lists them, told in time, replaced by what is current."""

import re
from datetime import date, datetime
from pathlib import Path
from typing import get_args

import pytest
from anthropic.resources.messages.messages import DEPRECATED_MODELS
from anthropic.types import Model

from perdure.adapters.llm.access import (
    DEFAULT_CLAUDE,
    NEWEST,
    RETIREMENT_DATES,
    ModelAccess,
    current,
    default_model,
    retirement_notes,
    successor_of,
)
from perdure.adapters.llm.pricing import ModelPrices

ROOT = Path(__file__).parents[3]
CLAUDE = re.compile(r"claude-[a-z0-9][a-z0-9.-]*[a-z0-9]")
OLD = "claude-sonnet-4-5"
LAST_DAY, AFTER = date(2026, 11, 29), date(2026, 11, 30)


def test_the_days_are_those_of_the_sdk() -> None:
    def day(text: str) -> date:
        month, number, year = text.replace(",", "").split()
        return datetime.strptime(f"{month} {number[:-2]} {year} +0000", "%B %d %Y %z").date()

    assert {model: day(text) for model, text in DEPRECATED_MODELS.items()} == RETIREMENT_DATES


def test_the_newest_of_a_family_is_the_newest_that_the_sdk_lists() -> None:
    known = {name for part in get_args(Model) for name in get_args(part)}

    def newest(family: str) -> str:
        plain = re.compile(rf"claude-{family}-(\d{{1,2}})(?:-(\d{{1,2}}))?")
        found = [(match, name) for name in known if (match := plain.fullmatch(name))]
        return max(found, key=lambda one: (int(one[0][1]), int(one[0][2] or 0)))[1]

    assert {family: newest(family) for family in NEWEST} == NEWEST


def test_no_page_names_a_model_that_ends() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.yaml")]
    pages += (ROOT / "perdure" / "definitions").rglob("*.yaml")
    named = {
        (page.name, model) for page in pages for model in CLAUDE.findall(page.read_text("utf-8"))
    }
    assert {pair for pair in named if pair[1] in RETIREMENT_DATES} == set()


def test_every_successor_has_a_price_and_no_end() -> None:
    prices = ModelPrices()
    for model in NEWEST.values():
        card = prices.card(model)
        assert card is not None
        assert card.price is not None
        assert model not in RETIREMENT_DATES


@pytest.mark.parametrize(
    ("today", "told"),
    [
        (date(2026, 8, 1), ()),
        (date(2026, 11, 22), ("ends in 8 days, on 2026-11-30",)),
        (AFTER, ("has ended on 2026-11-30",)),
    ],
    ids=["long before", "soon", "over"],
)
def test_an_end_is_told_in_time(today: date, told: tuple[str, ...]) -> None:
    found = retirement_notes([OLD, OLD, "claude-opus-5", "local"], today=today)
    assert len(found) == len(told)
    for note, words in zip(found, told, strict=True):
        assert words in note
        assert "Name claude-sonnet-5-5 instead" in note


@pytest.mark.parametrize(
    ("model", "new"),
    [(OLD, "claude-sonnet-5-5"), ("claude-opus-4-0", "claude-opus-5-5"),
     ("claude-3-5-haiku-latest", "claude-haiku-5-5"), ("claude-2.1", "claude-sonnet-5-5")],
)  # fmt: skip
def test_the_successor_is_of_the_same_family(model: str, new: str) -> None:
    assert successor_of(model) == new


def test_the_default_never_is_a_model_that_ended() -> None:
    access = ModelAccess(api_key="k")
    assert default_model(access, today=LAST_DAY) == DEFAULT_CLAUDE == NEWEST["sonnet"]
    assert default_model(access, today=AFTER) == "claude-sonnet-5-5"
    assert current("claude-opus-5", today=AFTER) == "claude-opus-5"
    named = ModelAccess(api_key="k", default=OLD)
    assert default_model(named, today=AFTER) == OLD  # what somebody named stays
