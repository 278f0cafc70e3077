"""What a run's frame holds, and what it refuses before any money is spent."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from perdure.activities.open_run import OpenRun
from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.domain.llm.requests import ModelProfile, Price
from perdure.domain.run.activity_messages import OpenRunReport, OpenRunRequest
from perdure.domain.tools.definitions import ToolGrant

PRICE = Price(input_per_million=Decimal(3), output_per_million=Decimal(15))
PRICES = {"known": PRICE}


@dataclass(frozen=True)
class Listed:
    """Every model, with the price that `PRICES` has of it."""

    def resolve(self, model: str) -> "Listed":
        return self

    async def card(self, model: str) -> ModelProfile:
        return ModelProfile(name=model, price=PRICES.get(model))


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncGenerator[Stores]:
    opened = await open_stores(tmp_path / "home")
    yield opened
    await opened.close()


async def opened(stores: Stores, *, assume: str | None) -> OpenRunReport:
    opening = OpenRun(
        blobs=stores.blobs,
        transcripts=stores.transcripts,
        models=Listed(),  # type: ignore[arg-type]
        journal=stores.journal,
        records=stores.records,
    )
    step = OpenRunRequest(
        run="r",
        kind="agent",
        goal="g",
        system="s",
        chains={"executor": ("new", "known")},
        assume_price=assume,
        grant=ToolGrant(root=""),
        now=datetime(2030, 1, 1, tzinfo=UTC),
    )
    return await ActivityEnvironment().run(opening.open_run, step)


async def test_a_stand_in_gives_its_price_to_models_that_have_none(stores: Stores) -> None:
    for assume, price in ((None, None), ("known", PRICE)):
        report = await opened(stores, assume=assume)
        assert {name: card.price for name, card in report.cards.items()} == {
            "new": price,
            "known": PRICE,
        }


async def test_a_stand_in_without_a_price_is_refused(stores: Stores) -> None:
    with pytest.raises(ApplicationError, match=r"unknown_price\.assume: .*'typo'.*price sheet"):
        await opened(stores, assume="typo")
