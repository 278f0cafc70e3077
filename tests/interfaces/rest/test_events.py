"""Following over HTTP: in order, taken up again, one reader for all, gone when nobody listens."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
from rest import Rest, client_of, scripted, served
from starlette.requests import ClientDisconnect
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.installation.access import Credentials
from perdure.interfaces.rest import callers, events, stream
from perdure.interfaces.rest.app import build_app
from perdure.interfaces.rest.error_responses import Refused
from perdure.interfaces.rest.events import CountedStream, Feeds, Streams
from perdure.interfaces.rest.settings import ApiRules

LOOPS = "/api/v1/loops"
TASK = {"kind": "agent", "goal": "look around", "learn": False}
SLOW = {
    "replies": [
        {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}], "delay_s": 1.5},
        {"text": "done"},
    ],
    "exhausted": "repeat_last",
}

WRITTEN = {"path": "a.txt", "content": "x", "expected_hash": "absent"}
WRITE = {"name": "fs.write", "arguments": WRITTEN}
ASKS = {"replies": [{"tool_calls": [WRITE]}, {"text": "done"}], "exhausted": "repeat_last"}


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


@pytest.fixture
async def waiting(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[tuple[Rest, str]]:
    """A door, and a run that waits for a person, so that its streams stay open."""
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, ASKS) as site,
        site.worker(),
        served(site, ApiRules(rate_per_minute=100_000, streams=3)) as door,
    ):
        tools = {"access": "full", "approve": ["fs.write"]}
        run = await door.start(TASK | {"tools": tools})
        yield door, run
        await site.handle(run).terminate()


async def followed(
    rest: Rest, run: str, *, last: str | None = None, until: str = "ended"
) -> list[tuple[str, int | None, dict[str, object]]]:
    """The events of a stream up to one of a type: type, number, data."""
    headers = {} if last is None else {"last-event-id": last}
    async with AsyncExitStack() as opened:
        stream = await opened_stream(rest, run, headers, opened)
        assert stream.headers["content-type"].startswith("text/event-stream")
        return await read(stream, until=until)


async def opened_stream(
    rest: Rest, run: str, headers: dict[str, str], opened: AsyncExitStack
) -> httpx2.Response:
    """A stream of events; the door may take a moment to see that earlier ones are closed."""

    async def admitted() -> bool:
        asked = rest.client.stream("GET", f"{LOOPS}/{run}/events", headers=headers)
        streams.append(await opened.enter_async_context(asked))
        return streams[-1].status_code != 429

    streams: list[httpx2.Response] = []
    await eventually(admitted)
    assert streams[-1].status_code == 200
    return streams[-1]


async def read(
    stream: httpx2.Response, *, until: str
) -> list[tuple[str, int | None, dict[str, object]]]:
    """The events that a stream sends, up to one of a type."""
    found: list[tuple[str, int | None, dict[str, object]]] = []
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


@pytest.mark.parametrize("name", ["events", "stream"])
async def test_a_stream_ends_with_its_token(
    waiting: tuple[Rest, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest, run = waiting
    for module in (events, stream):
        monkeypatch.setattr(module, "HEARTBEAT_S", 0.05)
    monkeypatch.setattr(callers.while_admitted, "__kwdefaults__", {"every_s": 0.0})
    text = await rest.token("read")
    made = Credentials.read(text)
    assert made is not None
    headers = {"authorization": f"Bearer {text}"}
    async with (
        client_of(rest.url, headers) as client,
        client.stream("GET", f"{LOOPS}/{run}/{name}") as answer,
    ):
        lines = answer.aiter_lines()
        for _ in range(5):
            await anext(lines)
        assert await rest.api.services.access.revoke_token(made.id, at=datetime.now(UTC))
        left = [line async for line in lines]
    assert "event: ended" not in left
    async with client_of(rest.url, headers) as client:
        assert (await client.get(f"{LOOPS}/{run}/{name}")).status_code == 401


@pytest.mark.long
async def test_events_come_in_order_and_are_taken_up_again(slow: Rest) -> None:
    run = await slow.start(TASK)
    before = await followed(slow, run, until="iteration_started")
    seen = numbers(before)
    after = await followed(slow, run, last=str(seen[-1]))
    assert numbers(after)[0] == seen[-1] + 1
    whole = await followed(slow, run)
    assert numbers(whole) == list(range(1, len(numbers(whole)) + 1))
    assert [seen for seen in whole if seen[1]] == [one for one in (*before, *after) if one[1]]
    assert whole[-1][0] == "ended"
    assert (await slow.client.get(f"{LOOPS}/{run}/result")).status_code == 200

    headers = {"last-event-id": str(numbers(whole)[-1])}
    nothing = await slow.client.get(f"{LOOPS}/{run}/events", headers=headers)
    assert nothing.status_code == 204


@pytest.mark.parametrize("last", ["999999", "of another stream"])
async def test_a_number_that_the_run_does_not_have_begins_anew(
    waiting: tuple[Rest, str], last: str
) -> None:
    rest, run = waiting
    whole = await followed(rest, run, until="gate_opened")
    again = await followed(rest, run, last=last, until="gate_opened")
    assert numbers(again) == numbers(whole)


async def test_many_followers_share_one_reader(
    waiting: tuple[Rest, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    readers: list[str] = []

    def counted(run: str, **more: object) -> object:
        readers.append(run)
        return real(run, **more)  # type: ignore[arg-type]

    door, run = waiting
    real = door.api.services.gateway.events
    monkeypatch.setattr(door.api.services.gateway, "events", counted)
    heard, everyone = [], asyncio.Event()

    async def stays() -> None:
        async with door.client.stream("GET", f"{LOOPS}/{run}/events") as stream:
            async for line in stream.aiter_lines():
                if line == "event: gate_opened":
                    heard.append(line)
                    if len(heard) == 3:
                        everyone.set()
                    await everyone.wait()  # nobody leaves before all have read
                    return

    await asyncio.gather(*(stays() for _ in range(3)))
    assert len(heard) == 3
    assert readers == [run]


@pytest.mark.long
async def test_all_followers_see_the_same(slow: Rest) -> None:
    run = await slow.start(TASK)
    streams = await asyncio.gather(*(followed(slow, run) for _ in range(3)))
    assert len({tuple(numbers(stream)) for stream in streams}) == 1


async def test_streams_that_come_at_once_cannot_pass_the_limit_together(
    waiting: tuple[Rest, str],
) -> None:
    door, run = waiting

    async def opened() -> int:
        async with door.client.stream("GET", f"{LOOPS}/{run}/events") as stream:
            codes.append(stream.status_code)
            if len(codes) == 8:
                everyone.set()
            await everyone.wait()  # each is held open until all have been answered
            return stream.status_code

    codes: list[int] = []
    everyone = asyncio.Event()
    await asyncio.gather(*(opened() for _ in range(8)))
    assert sorted(codes) == [200] * 3 + [429] * 5

    async def free() -> bool:
        async with door.client.stream("GET", f"{LOOPS}/{run}/events") as stream:
            return stream.status_code == 200

    await eventually(free)


async def test_a_stream_that_never_begins_gives_its_place_back() -> None:
    async def nothing() -> AsyncGenerator[bytes]:
        yield b""

    async def gone(_: object) -> None:
        raise OSError("the caller left")

    streams = Streams(1)
    streams.take("t")
    response = CountedStream(nothing(), release=lambda: streams.release("t"))
    with pytest.raises(ClientDisconnect):
        await response({"type": "http", "asgi": {"spec_version": "2.4"}}, _never, gone)
    streams.take("t")
    with pytest.raises(Refused, match="follows 1 runs already"):
        streams.take("t")


async def test_a_caller_that_takes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection may stand for hours; with `last-event-id` it goes on where it was."""
    monkeypatch.setattr(events, "TAKEN_WITHIN_S", 0.01)

    async def for_ever() -> AsyncGenerator[bytes]:
        while True:
            yield b"text"

    async def stands(_: object) -> None:
        await asyncio.Event().wait()

    streams = Streams(1)
    streams.take("t")
    response = CountedStream(for_ever(), release=lambda: streams.release("t"))
    with pytest.raises(ClientDisconnect):
        await response({"type": "http", "asgi": {"spec_version": "2.4"}}, _never, stands)
    streams.take("t")


async def _never() -> dict[str, object]:
    await asyncio.Event().wait()
    return {}


@pytest.mark.long
async def test_the_reader_ends_with_its_last_follower(slow: Rest) -> None:
    feeds = Feeds(slow.api.services)
    run = await slow.start(TASK)
    async with feeds.follow(run) as one, feeds.follow(run) as other:
        assert one is other
        assert feeds.reading == (run,)
    assert feeds.reading == ()
    await slow.ended(run)
    assert slow.api.version  # the door outlives its streams


@pytest.mark.long
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


@pytest.mark.long
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
    await asyncio.wait({listening}, timeout=60)
    assert listening.done()
    listening.exception()  # the connection may have been cut in the middle
    await slow.client.post(f"{LOOPS}/{run}/stop", json={"mode": "now"})
    await slow.ended(run)
