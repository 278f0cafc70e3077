"""`perdure notices`: what became of them, and sending again."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.run.notices import MOST_ATTEMPTS, dropped, failed, new_notice
from tests.interfaces.cli.memory import Installation

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def world(tmp_path: Path) -> Installation:
    asyncio.run(_filled(tmp_path / "home"))
    return Installation(tmp_path, remembers=True)


async def _filled(home: Path) -> None:
    stores = await open_stores(home)
    for gate in ("g1", "g2"):
        notice = new_notice({"run": "r1", "gate": gate, "reminder": 0}, now=NOW)
        spent = notice.model_copy(update={"attempts": MOST_ATTEMPTS})
        await stores.notices().put(failed(spent, "The webhook at h answered 500.", now=NOW))
    await stores.close()


def test_dead_notices_are_listed_with_their_reason_and_sent_again(world: Installation) -> None:
    assert world.run("notices", "--state", "dead", "--json") == 0
    listed = json.loads(world.out)["notices"]
    assert {one["gate"] for one in listed} == {"g1", "g2"}
    assert world.run("notices") == 0
    assert "answered 500" in world.out
    assert world.run("notices", "resend", listed[0]["id"][:12]) == 0
    assert world.run("notices", "list", "--state", "waiting", "--json") == 0
    (waiting,) = json.loads(world.out)["notices"]
    assert (waiting["id"], waiting["attempts"]) == (listed[0]["id"], 0)
    assert world.run("notices", "resend", "--dead") == 0
    assert world.run("notices", "--state", "dead") == 0
    assert "No notices" in world.out
    assert world.run("audit", "--action", "notice_resent", "--json") == 0
    assert len(json.loads(world.out)["entries"]) == 2


async def _drop(home: Path) -> None:
    stores = await open_stores(home)
    (notice, _) = await stores.notices().notices()
    moot = dropped(notice, "The run has ended.", now=NOW)
    assert await stores.notices().renew(moot, seen=notice)
    await stores.close()


def test_a_dropped_notice_is_not_sent_with_the_dead_ones(
    world: Installation, tmp_path: Path
) -> None:
    asyncio.run(_drop(tmp_path / "home"))
    assert world.run("notices", "--state", "dropped", "--json") == 0
    (left,) = json.loads(world.out)["notices"]
    assert world.run("notices", "resend", "--dead", "--json") == 0
    (sent,) = json.loads(world.out)["notices"]
    assert sent["id"] != left["id"]
    assert world.run("notices", "--state", "dropped") == 0
    assert "The run has ended." in world.out
    assert world.run("notices", "resend", left["id"]) == 0
    assert f"sent again: {left['id']}" in world.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((), 2, "Say which notices"),
        (("msg_", "--dead"), 2, "Say which notices"),
        (("msg_",), 2, "fits 2 notices"),
        (("nothing",), 4, "There is no notice 'nothing'"),
        (("",), 4, "There is no notice ''"),
    ],
    ids=["none", "both", "too short", "unknown", "empty"],
)
def test_wrong_wishes_are_explained(
    world: Installation, words: tuple[str, ...], code: int, said: str
) -> None:
    assert world.run("notices", "resend", *words) == code
    assert said in world.err
