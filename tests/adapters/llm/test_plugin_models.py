"""Model clients of plugins: they run outside the worker's event loop, and are heard in it."""

import asyncio
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest
from memory_blobs import MemoryBlobs

from perdure.adapters.llm import registry
from perdure.adapters.llm.access import ModelAccess
from perdure.adapters.llm.foreign_model import ForeignModel
from perdure.adapters.llm.pricing import ModelPrices
from perdure.adapters.llm.registry import ModelCatalog
from perdure.adapters.plugins_aside import models_aside
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.llm.requests import ModelProfile, ModelReply, ModelRequest, Usage
from perdure.domain.ports import ModelClient, UsageSoFar, ignore_usage
from perdure.extending.own_loop import OwnLoops
from tests.adapters.llm.support import fails, request, say, script_name, scripted

SCRIPT = "replies: [{text: one two three four}]"


def aside(client: ModelClient) -> ModelClient:
    return models_aside({"mine": lambda: client}, OwnLoops())["mine"]()


class Blocking:
    """A client that uses a library which is not asynchronous."""

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()
        self.thread = 0

    async def card(self, model: str) -> ModelProfile:
        raise NotImplementedError

    async def count(self, request: ModelRequest) -> int | None:
        self.thread = threading.get_ident()
        return 7

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        self.begun.set()
        self.free.wait()
        raise AssertionError("unreachable")


async def test_replies_pieces_and_failures_are_those_of_the_client() -> None:
    heard, used, here = list[int](), list[Usage](), threading.get_ident()
    alone, pieces = await say(scripted(SCRIPT), request(script_name(SCRIPT)))
    client = aside(scripted(SCRIPT))
    reply, came = await say(client, request(script_name(SCRIPT)))
    assert (reply.message, came, "".join(came)) == (alone.message, pieces, "one two three four")

    def on_text(_: str) -> None:
        heard.append(threading.get_ident())

    await client.call(
        request(script_name(SCRIPT), run="run-2"),
        on_text=on_text,
        on_answer=lambda seen: used.append(seen()),
    )
    assert (set(heard), [usage.output_tokens > 0 for usage in used]) == ({here}, [True])
    assert (await client.card(script_name(SCRIPT))).window >= 1_000_000
    assert (await fails(client, request("scripted:sha256:" + "0" * 64))).kind


async def test_a_client_that_blocks_is_left_behind() -> None:
    blocking = Blocking()
    client = aside(blocking)
    call = asyncio.create_task(say(client, request()))
    await asyncio.to_thread(blocking.begun.wait)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await client.count(request()) == 7
    assert blocking.thread != threading.get_ident()
    blocking.free.set()


class Clumsy(Blocking):
    """A client whose author knew nothing of `ModelError`."""

    def __init__(self, ends: object) -> None:
        super().__init__()
        self.ends = ends

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        if isinstance(self.ends, BaseException):
            raise self.ends
        return self.ends  # type: ignore[return-value]

    async def count(self, request: ModelRequest) -> int | None:
        if isinstance(self.ends, BaseException):
            raise self.ends
        return self.ends  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("ends", "kind", "words"),
    [
        (
            ConnectionError("down"),
            "connection",
            "failed with ConnectionError: down",
        ),
        (TimeoutError(), "timeout", "failed with TimeoutError"),
        (KeyError("text"), "server", "failed with KeyError: 'text'"),
        (SystemExit(3), "server", "failed with it ended the process with sys.exit(3)"),
        ("a text", "bad_reply", "returned str, which is not a ModelReply"),
    ],
)
async def test_what_a_client_of_somebody_else_does_wrong_is_a_failed_call(
    ends: object, kind: str, words: str
) -> None:
    catalog = ModelCatalog(
        access=ModelAccess(),
        blobs=MemoryBlobs(),  # type: ignore[arg-type]
        records=None,  # type: ignore[arg-type]
        prices=ModelPrices(),
        brought={"acme": Clumsy(ends)},
    )
    facts = await fails(catalog, request("acme:large"))
    assert (facts.kind, facts.message) == (kind, f"The model client acme {words}.")
    # Counting only improves an estimate, so nothing fails for it.
    assert await catalog.resolve("acme:large").count(request("acme:large")) is None


class Telling(Clumsy):
    """A client that gives the usage itself where a function is asked for."""

    async def call(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_answer: Callable[[UsageSoFar], None] = ignore_usage,
    ) -> ModelReply:
        on_answer(self.ends)  # type: ignore[arg-type]
        raise AssertionError("unreachable")


@pytest.mark.parametrize("place", [aside, lambda client: client], ids=["plugin", "program"])
async def test_a_usage_that_is_no_function_is_refused_where_it_is_given(
    place: Callable[[ModelClient], ModelClient],
) -> None:
    client = ForeignModel("acme", place(Telling(Usage())))
    facts = await fails(client, request("acme:large"))
    assert facts.message.endswith("a function that returns the usage so far, not Usage.")


def test_an_entry_point_that_makes_no_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"held": f"{__name__}:HELD", "absent": "no_such_module:Client"}
    found = [EntryPoint(name, value, "perdure.models") for name, value in points.items()]
    monkeypatch.setattr(registry, "installed_plugins", lambda *, group: found)
    with pytest.raises(InvalidInput, match=r"held = .*:HELD holds Clumsy.*class of the client"):
        registry.model_plugins(frozenset({"held"}))
    with pytest.raises(InvalidInput, match=r"absent = .* cannot be loaded"):
        registry.model_plugins(frozenset({"absent"}))


HELD = Clumsy(None)
