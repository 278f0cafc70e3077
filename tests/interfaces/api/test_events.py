"""Following over HTTP: in order, taken up again, one reader for all, gone when nobody listens."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from rest import Rest, client_of, scripted, served
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.interfaces.api.app import build_app
from perdure.interfaces.api.facts import ApiRules
from perdure.interfaces.api.feeds import Feeds

LOOPS = "/api/v1/loops"
TASK = {"kind": "agent", "goal": "look around", "learn": False}
SLOW = {
    "replies": [
        {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}], "delay_s": 1.5},
        {"text": "done"},
    ],
    "exhausted": "repeat_last",
}


@pytest.fixture
async def slow(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    """A door whose model takes a while for its first reply."""
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, SLOW) as site,
        site.worker(),
        served(site, ApiRules(rate_per_minute=100_000, streams=3)) as door,
    ):
        yield door


async def followed(
    rest: Rest, run: str, *, last: str | None = None, until: str = "ended"
) -> list[tuple[str, int | None, dict[str, object]]]:
    """The events of a stream up to one of a type: type, number, data."""
    headers = {} if last is None else {"last-event-id": last}
    found: list[tuple[str, int | None, dict[str, object]]] = []
    async with rest.client.stream("GET", f"{LOOPS}/{run}/events", headers=headers) as stream:
        assert stream.status_code == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in stream.aiter_lines():
            name, mark, value = line.partition(": ")
            if mark:
                fields[name] = value
            elif not line and "event" in fields:
                number = int(fields["id"]) if "id" in fields else None
                found.append((fields["event"], number, json.loads(fields["data"])))
                if fields["event"] == until:
                    return found
                fields = {}
    return found


def numbers(found: list[tuple[str, int | None, dict[str, object]]]) -> list[int]:
    return [number for _, number, _ in found if number is not None]


async def test_events_come_in_order_and_are_taken_up_again(slow: Rest) -> None:
    run = await slow.start(TASK)
    before = await followed(slow, run, until="iteration_started")
    seen = numbers(before)
    after = await followed(slow, run, last=str(seen[-1]))
    assert numbers(after)[0] == seen[-1] + 1
    whole = await followed(slow, run)
    assert numbers(whole) == list(range(1, len(numbers(whole)) + 1))
    assert [seen for seen in whole if seen[1]] == [*before, *(one for one in after if one[1])]
    assert whole[-1][0] == "ended"
    assert (await slow.client.get(f"{LOOPS}/{run}/result")).status_code == 200

    headers = {"last-event-id": str(numbers(whole)[-1])}
    nothing = await slow.client.get(f"{LOOPS}/{run}/events", headers=headers)
    assert nothing.status_code == 204


async def test_many_followers_share_one_reader(slow: Rest, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[str] = []
    real = slow.api.services.gateway.events

    def counted(run: str, **more: object) -> object:
        readers.append(run)
        return real(run, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(slow.api.services.gateway, "events", counted)
    run = await slow.start(TASK)
    streams = await asyncio.gather(*(followed(slow, run) for _ in range(3)))
    assert readers == [run]
    assert len({tuple(numbers(stream)) for stream in streams}) == 1


async def test_a_token_holds_so_many_streams(slow: Rest) -> None:
    run = await slow.start(TASK)
    streams = [asyncio.create_task(followed(slow, run)) for _ in range(3)]

    async def full() -> bool:
        async with slow.client.stream("GET", f"{LOOPS}/{run}/events") as stream:
            return stream.status_code == 429

    first = asyncio.create_task(eventually(full))
    await asyncio.wait({first, *streams}, return_when=asyncio.FIRST_COMPLETED)
    assert first.done() and first.exception() is None
    await asyncio.gather(*streams)


async def test_the_reader_ends_with_its_last_follower(slow: Rest) -> None:
    feeds = Feeds(slow.api.services)
    run = await slow.start(TASK)
    async with feeds.follow(run) as one, feeds.follow(run) as other:
        assert one is other
        assert feeds.reading == (run,)
    assert feeds.reading == ()
    await slow.ended(run)
    assert slow.api.version  # the door outlives its streams


async def test_a_browser_that_leaves_is_forgotten(slow: Rest) -> None:
    run = await slow.start(TASK)
    async with slow.client.stream("GET", f"{LOOPS}/{run}/events") as stream:
        async for _ in stream.aiter_lines():
            break
    await slow.ended(run)
    again = [await followed(slow, run) for _ in range(4)]
    assert all(stream[-1][0] == "ended" for stream in again)


async def test_an_unknown_run_has_no_events(slow: Rest) -> None:
    assert (await slow.client.get(f"{LOOPS}/nobody/events")).status_code == 404


def test_each_application_has_its_own_feeds(slow: Rest) -> None:
    first, second = build_app(slow.api), build_app(slow.api)
    assert first.state.feeds is not second.state.feeds


async def test_the_door_closes_under_open_streams(slow: Rest) -> None:
    run = await slow.start(TASK)
    await slow.client.post(f"{LOOPS}/{run}/pause")
    heard = asyncio.Event()

    async def listen(other: Rest, text: str) -> None:
        headers = {"authorization": f"Bearer {text}"}
        async with (
            client_of(other.url, headers) as client,
            client.stream("GET", f"{LOOPS}/{run}/events") as stream,
        ):
            async for _ in stream.aiter_lines():
                heard.set()

    async with served(slow.site) as other:
        listening = asyncio.create_task(listen(other, await other.token("read")))
        await heard.wait()
    await asyncio.wait({listening}, timeout=15)
    assert listening.done()
    listening.exception()  # the connection may have been cut in the middle
    await slow.client.post(f"{LOOPS}/{run}/stop", json={"mode": "now"})
    await slow.ended(run)
