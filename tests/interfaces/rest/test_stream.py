"""Text of calls in flight over HTTP: named, put together by offsets, taken up again."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
from holding import Holding, holding
from live_calls import live_call
from rest import TASK, Rest, scripted, served
from steered import HELD_LIST
from temporalio.testing import WorkflowEnvironment

from perdure.interfaces.rest.settings import ApiRules

__all__ = ["holding"]
LOOPS = "/api/v1/loops"
SAID = " ".join(f"word-{number}" for number in range(80))
SPEAKS = {"replies": [HELD_LIST, {"text": SAID, "delay_s": 2}], "exhausted": "repeat_last"}
Heard = list[tuple[str, str, dict[str, object]]]


@pytest.fixture
async def speaking(
    server: WorkflowEnvironment, tmp_path: Path, holding: Holding
) -> AsyncIterator[Rest]:
    """A door whose model speaks slowly, once it was let go."""
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, SPEAKS) as site,
        site.worker(),
        served(site, ApiRules(rate_per_minute=100_000, streams=3)) as door,
    ):
        yield door


async def heard(
    rest: Rest, run: str, *, until: str = "ended", last: str | None = None
) -> tuple[Heard, httpx2.Response]:
    """What a stream sends up to an event of a type: type, id, data."""
    headers = {} if last is None else {"last-event-id": last}
    found: Heard = []
    async with AsyncExitStack() as opened:
        asked = rest.client.stream("GET", f"{LOOPS}/{run}/stream", headers=headers)
        answer = await opened.enter_async_context(asked)
        fields: dict[str, str] = {}
        async for line in answer.aiter_lines():
            name, mark, value = line.partition(": ")
            if mark:
                fields[name] = value
            elif not line and "event" in fields:
                found.append((fields["event"], fields["id"], json.loads(fields["data"])))
                if fields["event"] == until:
                    break
                fields = {}
    return found, answer


def together(found: Heard) -> str:
    """The text that the parts make, each at its place."""
    text = ""
    for kind, _, part in found:
        if kind == "text":
            assert part["offset"] == len(text) and part["skipped"] == 0
            text += str(part["text"])
    return text


@pytest.mark.long
async def test_a_call_is_heard_while_it_speaks_and_to_its_end(
    speaking: Rest, holding: Holding
) -> None:
    run = await speaking.start(TASK)
    silent, _ = await heard(speaking, run, until="call_started")
    holding.release()
    rest, _ = await heard(speaking, run, last=silent[-1][1], until="text")
    before = silent + rest
    after, _ = await heard(speaking, run, last=before[-1][1])
    everything = before + after
    assert together(everything) == SAID
    kinds = [kind for kind, _, _ in everything if kind != "text"]
    assert kinds == ["call_started", "call_ended"] * 2 + ["ended"]
    facts = {name: everything[0][2][name] for name in ("run", "iteration", "role", "phase")}
    assert facts == {"run": run, "iteration": 1, "role": "executor", "phase": "executing"}
    result = (await speaking.client.get(f"{LOOPS}/{run}/result")).json()
    assert result["output"] == SAID
    _, nothing = await heard(speaking, run, last=everything[-1][1])
    assert nothing.status_code == 204


async def test_a_stream_of_a_run_has_the_calls_below_it_by_name(rest: Rest) -> None:
    run = await rest.start(TASK)
    await rest.ended(run)
    live = rest.site.parts.stores.live()
    below = live_call(run=f"{run}.w1-reader", text="deep", role="judge", worker="reader")
    await live.show([below, live_call("foreign", run="another", text="no")])
    found, _ = await heard(rest, run)
    names = ("run", "worker", "text")
    told = [(kind, *(part.get(name) for name in names)) for kind, _, part in found]
    # The run's own call may be on show for a moment more.
    assert [one for one in told if one[0] == "ended" or one[1] != run] == [
        ("call_started", below.run, "reader", ""),
        ("text", below.run, "reader", "deep"),
        ("ended", run, None, None),
    ]


@pytest.mark.long
async def test_streams_count_with_those_of_events(speaking: Rest, holding: Holding) -> None:
    run = await speaking.start(TASK)
    async with AsyncExitStack() as opened:
        for path in ("events", "stream", "events", "stream"):
            asked = speaking.client.stream("GET", f"{LOOPS}/{run}/{path}")
            answer = await opened.enter_async_context(asked)
        assert answer.status_code == 429
    holding.release()
    await speaking.ended(run)


async def test_who_may_not_read_hears_nothing(rest: Rest) -> None:
    run = await rest.start(TASK)
    async with rest.caller() as nobody:
        assert (await nobody.get(f"{LOOPS}/{run}/stream")).status_code == 401
    assert (await rest.client.get(f"{LOOPS}/nobody/stream")).status_code == 404
    await rest.ended(run)
