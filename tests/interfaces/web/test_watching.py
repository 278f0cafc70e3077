"""Many who watch one run: it is read once for all of them, and none sees what is another's."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from page_visit import Visitor, visitor
from rest import APPROVED, ASKING, Rest, api_site, scripted, served
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import StoreAway
from perdure.domain.installation.access import ApiToken, Credentials
from perdure.interfaces.rest.app import build_app
from perdure.interfaces.rest.settings import ApiSite
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.api_stream import Told
from perdure.interfaces.web.run import watching
from perdure.interfaces.web.run.watching import Part, Watches, news_of
from perdure.interfaces.web.visit import Visit

KEY = re.compile(r'name="form_key" value="([0-9a-f]{64})"')
SOON_S = 60


@pytest.fixture
async def asked(tmp_path: Path, server: WorkflowEnvironment) -> AsyncIterator[Rest]:
    """With a worker, and a model that wants to write a file."""
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path, address, ASKING) as site, site.worker(), served(site) as rest:
        yield rest


async def waits(rest: Rest, run: str) -> None:
    async def listed() -> bool:
        found = (await rest.client.get("/api/v1/gates", params={"limit": 100})).json()
        return run in {one["run"] for one in found["items"]}

    await eventually(listed, seconds=SOON_S)


@dataclass
class Tab:
    """An open tab: what came so far."""

    lines: list[str] = field(default_factory=list[str])
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    async def shows(self, text: str) -> None:
        async def shown() -> bool:
            return text in self.text

        await eventually(shown, seconds=SOON_S)


@asynccontextmanager
async def tab(person: Visitor, run: str, had: str = "") -> AsyncGenerator[Tab]:
    """Watch a run's page until the block ends."""
    found = Tab()
    headers = {"last-event-id": had} if had else {}

    async def read() -> None:
        async with person.client.stream("GET", f"/runs/{run}/live", headers=headers) as answer:
            assert answer.status_code == 200, await answer.aread()
            async for line in answer.aiter_lines():
                found.lines.append(line)
        found.over.set()

    reading = asyncio.create_task(read())
    try:
        yield found
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def test_each_watcher_gets_the_own_key_and_the_own_rights(asked: Rest) -> None:
    run = await asked.start(APPROVED)
    await waits(asked, run)
    async with (
        visitor(asked, await asked.token("admin")) as ann,
        visitor(asked, await asked.token("admin")) as ben,
        visitor(asked, await asked.token("read")) as guest,
        tab(ann, run) as anns,
        tab(ben, run) as bens,
        tab(guest, run) as guests,
    ):
        for one in (anns, bens, guests):
            await one.shows("waits for tool approval")
        keys = [set(KEY.findall(one.text)) for one in (anns, bens)]
        assert keys == [{await ann.form_key()}, {await ben.form_key()}]
        assert not KEY.search(guests.text), "who may only read gets no form"
        assert "<button" not in guests.text
        for one in (anns, bens, guests):
            assert watching._ANY_KEY not in one.text
        key = await ann.form_key()
        found = re.search(rf'action="(/runs/{run}/gates/[^"]+)"', anns.text)
        assert found is not None
        hash = re.search(r'name="args_hash" value="(\w+)"', anns.text)
        assert hash is not None
        answer = {"choice": "approve", "args_hash": hash[1], "here": f"/runs/{run}"}
        taken = await ann.send(found[1], answer, key=key)
        assert taken.status_code == 303, taken.text
        for one in (anns, bens, guests):
            await asyncio.wait_for(one.over.wait(), SOON_S)
            assert one.lines[-3:-1] == ["event: ended", "data: {}"]
        last = bens.text.rpartition("event: ended")[0].rpartition("id: ")[0]
        assert "done" in last.rpartition("id: ")[2], "the last part shows the end"


async def token(api: ApiSite, text: str) -> ApiToken:
    made = Credentials.read(text)
    assert made is not None
    found = await api.services.access.token(made.id)
    assert found is not None
    return found


async def test_a_run_is_read_once_for_all_who_may_see_the_same(asked: Rest) -> None:
    run = await asked.start(APPROVED)
    await waits(asked, run)
    api = api_site(asked.site)
    watches = Watches(api, build_app(api))
    some = [await token(api, await asked.token("admin")) for _ in range(3)]
    reader = await token(api, await asked.token("read"))
    bound = await token(api, await asked.token("read", runs=(run,)))
    async with (
        watches.follow(run, some[0], all=False) as first,
        watches.follow(run, some[1], all=False) as second,
        watches.follow(run, some[2], all=False) as third,
        watches.follow(run, reader, all=False) as other,
        watches.follow(run, bound, all=False) as fourth,
    ):
        assert first is second is third
        assert len({id(one) for one in (first, other, fourth)}) == 3
        for one in (first, other, fourth):
            await eventually(lambda one=one: _has_part(one), seconds=SOON_S)
        # A run that waits does not change: whatever its events were, few readings told of them.
        assert first.renders <= 3
    assert watches.watched == ()


async def _has_part(watch: watching.Watch) -> bool:
    return watch.part is not None


async def test_what_a_watcher_had_already_is_not_sent_again(asked: Rest) -> None:
    run = await asked.start(APPROVED)
    await waits(asked, run)
    async with visitor(asked, await asked.token("read")) as person, tab(person, run) as before:
        await before.shows("waits for tool approval")
        had = [line.removeprefix("id: ") for line in before.lines if line.startswith("id: ")][-1]
        async with tab(person, run, had) as after:
            await after.shows(": ping")
            assert f"id: {had}" not in after.lines


@pytest.mark.long
async def test_a_revoked_token_ends_what_it_watches(asked: Rest) -> None:
    run = await asked.start(APPROVED)
    await waits(asked, run)
    text = await asked.token("read")
    async with visitor(asked, text) as person, tab(person, run) as watched:
        await watched.shows("waits for tool approval")
        found = await token(asked.api, text)
        assert await asked.api.services.access.revoke_token(found.id, at=datetime.now(UTC))
        await asyncio.wait_for(watched.over.wait(), SOON_S)
        assert "event: ended" not in watched.lines


@pytest.mark.long
async def test_signing_out_ends_what_a_copy_of_the_session_watches(asked: Rest) -> None:
    run = await asked.start(APPROVED)
    await waits(asked, run)
    async with (
        visitor(asked, await asked.token("read")) as person,
        served(asked.site) as elsewhere,  # another process, by its own connections
        httpx2.AsyncClient(base_url=elsewhere.url, timeout=60, trust_env=False) as thief,
    ):
        thief.cookies.update(person.client.cookies)
        async with tab(Visitor(thief, elsewhere.url), run) as watched:
            await watched.shows("waits for tool approval")
            assert (await person.send("/sign-in/out", {})).status_code == 303
            await asyncio.wait_for(watched.over.wait(), SOON_S)
            assert "event: ended" not in watched.lines


async def test_who_may_not_see_a_run_gets_no_stream(asked: Rest) -> None:
    run, other = await asked.start(APPROVED), await asked.start(APPROVED)
    async with visitor(asked, await asked.token("read", runs=(other,))) as person:
        for path in (run, "nobody"):
            answer = await person.client.get(f"/runs/{path}/live")
            assert answer.status_code == 404


async def yes() -> bool:
    return True


async def test_who_is_slow_misses_what_came_between_but_never_the_last(asked: Rest) -> None:
    run = await asked.start(APPROVED)
    await waits(asked, run)
    api = api_site(asked.site)
    watches = Watches(api, build_app(api))
    async with watches.follow(run, await token(api, await asked.token("read")), all=False) as watch:
        told = news_of(watch, form_key="k", had=None, holds=yes)
        async with aclosing(told):
            await eventually(lambda: _has_part(watch), seconds=SOON_S)
            await anext(told)
            for number in range(5):
                watch.part = Part.of(f"part {number}")
                watch.news.tell()
            assert b"data: part 4\n" in await anext(told)


@pytest.mark.parametrize(
    "error",
    [ApiProblem(503, "away", "Temporal does not answer."), RuntimeError("a defect")],
    ids=["refused", "failed"],
)
async def test_what_cannot_be_read_now_stays_as_it_was(
    asked: Rest, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    run = await asked.start(APPROVED)
    await waits(asked, run)
    away, read = {"is": False}, watching.read_run

    async def reading(*given: Any, **more: Any) -> dict[str, object]:
        if away["is"]:
            raise error
        return await read(*given, **more)

    monkeypatch.setattr(watching, "read_run", reading)
    async with visitor(asked, await asked.token("admin")) as person, tab(person, run) as shown:
        await shown.shows("waits for tool approval")
        parts, away["is"] = shown.text.count("id: "), True
        pause = await asked.client.post(f"/api/v1/loops/{run}/pause")
        assert pause.status_code < 300, pause.text
        await shown.shows("event: stale")
        assert shown.text.count("id: ") == parts
        assert str(error) not in shown.text
        away["is"] = False
        await shown.shows("event: fresh")
        await shown.shows("Resume</button>")


async def test_a_part_is_the_same_whoever_it_goes_to() -> None:
    form = f'<input name="form_key" value="{watching._ANY_KEY}">'
    part = Part.of(f"<p>a\nb</p>{form}{form}")
    assert part.event("K").decode() == (
        'data: <p>a\ndata: b</p><input name="form_key" value="K"><input name="form_key" value="K">'
        f"\nid: {part.id}\n\n"
    )


async def test_a_stream_that_breaks_is_followed_again(
    asked: Rest, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries, followed = [0], watching.followed

    async def breaking(*given: Any) -> AsyncGenerator[Told]:
        tries[0] += 1
        if tries[0] == 1:
            raise RuntimeError("a defect")
        async with aclosing(followed(*given)) as events:
            async for told in events:
                yield told

    monkeypatch.setattr(watching, "followed", breaking)
    run = await asked.start(APPROVED)
    async with visitor(asked, await asked.token("admin")) as person, tab(person, run) as shown:
        await shown.shows("waits for tool approval")
        assert (await asked.client.post(f"/api/v1/loops/{run}/stop")).status_code < 300
        await asyncio.wait_for(shown.over.wait(), SOON_S)
    assert "event: ended" in shown.lines


async def test_a_page_whose_session_is_over_leads_to_the_sign_in(guest: httpx2.AsyncClient) -> None:
    here = {"hx-request": "true", "hx-current-url": "http://page/runs?kind=agent"}
    for path in ("/inbox/count", "/runs/one/live"):
        answer = await guest.get(path, headers=here)
        assert answer.status_code == 401
        assert answer.headers["hx-redirect"] == "/sign-in?next=%2Fruns%3Fkind%3Dagent"
        assert not answer.text


async def test_a_page_whose_address_cannot_be_read_leads_to_the_sign_in(
    guest: httpx2.AsyncClient,
) -> None:
    here = {"hx-request": "true", "hx-current-url": "http://["}
    answer = await guest.get("/inbox/count", headers=here)
    assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/sign-in?next=%2F")


async def test_a_stream_ends_while_nobody_can_tell_whether_its_session_holds() -> None:
    async def holder(*_given: object, **_named: object) -> None:
        raise StoreAway("The database cannot be reached.", cure="Start its server.")

    site = SimpleNamespace(services=SimpleNamespace(access=None), now=lambda: None)
    visitor = SimpleNamespace(session=SimpleNamespace(holder=holder), token=None)
    visit = Visit(request=None, site=site, visitor=visitor, api=None)  # type: ignore[arg-type]
    assert not await visit.holds()
