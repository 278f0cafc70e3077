"""An erasure takes the run that learned with it, though that run has no row."""

import json
from collections.abc import AsyncIterator, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from attempts import attempt
from sqlalchemy import select

from perdure.adapters.stores.open_stores import Stores, open_stores
from perdure.adapters.stores.tables import replies
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.llm.usage import Usage
from perdure.domain.run.status import StoredRun
from perdure.gateway.types import Retained
from perdure.interfaces.gateways import RunGateway
from perdure.operations.erase import Eraser, mentions

ENDED = datetime(2026, 1, 2, tzinfo=UTC)
RUN, LEARNER = "letter", "learn-letter"


class Server:
    """Keeps the execution of a run that learned; all of it is listed a while after its end."""

    def __init__(self, address: str, *, lifecycle: str = "ended") -> None:
        self._content = f'{{"ref": "{address}"}}'.encode()
        self._lifecycle = lifecycle
        self.deleted: list[str] = []

    async def retained(self, runs: Collection[str] | None = None) -> AsyncIterator[Retained]:
        if runs is None or LEARNER in runs:
            yield Retained(
                run=LEARNER, closed_at=ENDED, busy_since=None, content=frozenset({self._content})
            )

    async def status(self, run: str) -> SimpleNamespace:
        if run != LEARNER:
            raise NotFound(f"There is no run {run}.")
        return SimpleNamespace(lifecycle=self._lifecycle)

    async def delete(self, run: str) -> None:
        self.deleted.append(run)


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    stores = await open_stores(tmp_path)
    await put(stores, RUN)
    of = attempt(run=LEARNER).model_copy(update={"root": LEARNER})
    await stores.journal.begin(of)
    await stores.journal.answer(of, usage=Usage(), cost_usd=None, reply="of Ada", seconds=1)
    yield stores
    await stores.close()


async def put(stores: Stores, run: str) -> None:
    row = StoredRun(
        id=run, kind="refine", goal="g", label=None, lifecycle="ended", outcome="accepted",
        started_at=ENDED, ended_at=ENDED,
    )  # fmt: skip
    await stores.records.put_run(row)


def eraser(stores: Stores, server: Server) -> Eraser:
    return Eraser(stores, cast(RunGateway, server))


async def test_the_run_that_learned_goes_with_all_that_it_left(stores: Stores) -> None:
    address = await stores.blobs.put(b"what was learned of Ada")
    server = Server(address)
    now = datetime.now(UTC) + timedelta(minutes=1)
    found = await eraser(stores, server).erase(RUN, now=now, young=timedelta(0))
    assert set(found.runs) == set(server.deleted) == {RUN, LEARNER}
    assert not await stores.database.values(select(replies.c.reply))
    assert not await stores.blobs.exists(address)


async def test_a_run_that_is_learned_from_is_not_erased_yet(stores: Stores) -> None:
    server = Server("", lifecycle="running")
    with pytest.raises(NotAllowed, match="learn-letter, which learns from letter, has not ended"):
        await eraser(stores, server).ask([RUN], now=ENDED)
    assert not (await stores.erasure().pending()).roots


async def test_a_run_that_somebody_called_so_stays(stores: Stores) -> None:
    await put(stores, LEARNER)
    server = Server("", lifecycle="running")
    found = await eraser(stores, server).erase(RUN, now=datetime.now(UTC))
    assert found.runs == (RUN,)
    assert server.deleted == [RUN]
    assert await stores.database.values(select(replies.c.reply)) == ["of Ada"]


async def test_what_stays_is_asked_for_one_blob_after_the_other(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A big tree would otherwise keep every connection of the store waiting."""
    known, asked, most = stores.blobs.exists, 0, 0

    async def exists(address: str) -> bool:
        nonlocal asked, most
        asked += 1
        most = max(most, asked)
        kept = await known(address)
        asked -= 1
        return kept

    addresses = [await stores.blobs.put(f"{number}".encode()) for number in range(9)]
    await stores.erasure().mark((), addresses, root=RUN, at=ENDED)
    monkeypatch.setattr(stores.blobs, "exists", exists)
    swept = await eraser(stores, Server("")).sweep([RUN], now=datetime.now(UTC))
    assert (swept.later, most) == (len(addresses), 1)


@pytest.mark.parametrize("subject", ["Müller", "MÜLLER", "müller"])
@pytest.mark.parametrize("quoted", [1, 2])
def test_a_person_is_found_by_the_numbers_that_json_writes(subject: str, quoted: int) -> None:
    name: object = {"name": "Anna MÜLLER"}
    for _ in range(quoted):  # twice: the reply of a tool, within the JSON of a transcript
        name = json.dumps(name)
    assert mentions(str(name), subject)
    assert not mentions(str(name), "Möller")


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        pytest.param("𠮷田", json.dumps(json.dumps("𠮷田 様")), id="beyond 16 bits"),
        pytest.param("O'Brien", r'{"name": "O\u0027Brien"}', id="as .NET writes it"),
        pytest.param("a+b@c.org", r'"{\"to\": \"a\\u002Bb@c.org\"}"', id="a plus"),
        pytest.param('Ann "A" Lee', json.dumps(json.dumps('Ann "A" Lee')), id="quotes"),
        pytest.param("Lee/Roe", r'{"name": "Lee\/Roe"}', id="as PHP writes it"),
        pytest.param("Jos\u00e9", "a file of Jose\u0301 Diaz", id="as macOS writes it"),
        pytest.param("Jose\u0301", r'{"name": "JOS\u00C9"}', id="as one sign, by its number"),
    ],
)
def test_a_person_is_found_however_json_writes_the_name(subject: str, text: str) -> None:
    assert mentions(text, subject)


def test_a_long_row_of_backslashes_holds_up_no_search() -> None:
    assert not mentions("\\" * 300_000, "Ann")
