"""Erasing from a shell: what is asked for is exact, and nothing goes without --yes."""

import asyncio
from datetime import UTC, datetime

import pytest

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.run.status import StoredRun
from tests.interfaces.cli.memory import Installation

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RUN = "agent-letter-1"


@pytest.fixture
def kept(perdure: Installation) -> Installation:
    """An ended run about somebody."""
    perdure.remembers = True

    async def keep() -> None:
        stores = await open_stores(perdure.folder / "home")
        await stores.records.put_run(
            StoredRun(
                id=RUN, kind="agent", goal="A letter to Ada.", label="letters", outcome="accepted",
                lifecycle="completed", started_at=NOW, ended_at=NOW,
            )
        )  # fmt: skip
        await stores.close()

    asyncio.run(keep())
    return perdure


def test_one_thing_is_named(perdure: Installation) -> None:
    assert perdure.run("erase") == 2
    assert "Name one run, or --subject or --label" in perdure.err
    assert perdure.run("erase", RUN, "--label", "letters") == 2


def test_nothing_goes_without_yes(kept: Installation) -> None:
    for asked in (("--subject", "ada"), ("--label", "letters")):
        assert kept.run("erase", *asked) == 0, kept.err
        assert f"would erase {RUN}" in kept.out
        assert "Nothing was erased." in kept.err
    assert kept.run("erase", "--subject", "ad") == 2
    assert "too short a text" in kept.err
    assert kept.run("erase", "--subject", "somebody else") == 0
    assert "No run fits." in kept.out


def test_collections_are_scheduled_and_ended(perdure: Installation) -> None:
    perdure.remembers = True
    assert perdure.run("gc", "--every", "24h") == 0, perdure.err
    assert "Garbage is collected every" in perdure.out
    assert perdure.run("gc", "--every", "24h", "--off") == 2
    assert perdure.run("gc", "--every", "often") == 2
    assert perdure.run("gc", "--off") == 0
    assert "No collection is scheduled." in perdure.out
    assert perdure.run("gc", "--off") == 0
    assert "Nothing was scheduled." in perdure.err
    assert perdure.run("audit") == 0
    assert perdure.out.count("collection scheduled") == 2, "once on and once off"
    assert "every 24h" in perdure.out
