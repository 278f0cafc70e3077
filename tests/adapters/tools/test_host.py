"""The host: grant, arguments, deadline, caps; failures are outputs."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from pydantic import JsonValue

from perdure.adapters.tools.builtin import human_ask
from perdure.adapters.tools.execution import HARD_CAP_BYTES
from perdure.adapters.tools.host import LocalToolHost
from perdure.domain.foundation.errors import InvalidInput, NotFound, ToolFailure
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation
from perdure.extending.tool_decorator import ToolContext, tool

released = threading.Event()


@tool(name="t.add", idempotent=True, aliases=("plus",))
def add(left: int, right: int = 1) -> int:
    """Add two numbers."""
    return left + right


def _words(given: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """The names that models use for the two numbers."""
    left = given.pop("a", None)  # it may change what it is given
    return {"left": int(str(left)), **given}


other_add = tool(name="t.add")(lambda: None)
mended_add = tool(name="t.mended", aliases=("sum",))(add.function).mended(_words)


@tool(name="t.fail")
def fail(kind: str) -> None:
    """Fail in some way."""
    match kind:
        case "tool":
            raise ToolFailure("no such thing", reason="not_found")
        case "perdure":
            raise NotFound("no blob")
        case "value":
            raise ValueError("bad value")
        case "exit":
            sys.exit(3)
        case "stop":
            raise StopIteration
        case _:
            raise KeyboardInterrupt


@tool(name="t.cancelled")
async def cancelled() -> None:
    """Cancel itself."""
    raise asyncio.CancelledError


@tool(name="t.exits")
async def exits() -> None:
    """End the process."""
    sys.exit(1)


@tool(name="t.wait", timeout_s=0.05)
async def wait() -> None:
    """Wait for ever, and stop when asked."""
    await asyncio.Event().wait()


@tool(name="t.polite", timeout_s=0.05)
def polite(context: ToolContext) -> str:
    """Look at the deadline."""
    while not context.stopping():
        threading.Event().wait(0.005)
    return "stopped"


@tool(name="t.deaf", timeout_s=0.05, access="network")
async def deaf() -> None:
    """Ignore cancellation."""
    while not released.is_set():
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


@tool(name="t.blocked", timeout_s=0.05)
def blocked() -> None:
    """Block a thread."""
    released.wait(20)


@tool(name="t.say")
def say(count: int, text: str = "x") -> str:
    """Say something long."""
    return text * count


@tool(name="t.share")
def share() -> float:
    """Divide nothing by nothing."""
    return float("nan")


@tool(name="t.write", access="write")
def write() -> None:
    """Pretend to write."""


@tool(name="t.facts")
def facts(context: ToolContext) -> dict[str, object]:
    """What the call knows."""
    return {"run": context.run, "key": context.idempotency_key, "root": context.grant.root}


TOOLS = (
    add, fail, cancelled, exits, wait, polite, deaf, blocked, say, share, write, facts, human_ask()
)  # fmt: skip
NAMES = tuple(tool.fact.name for tool in TOOLS)


@pytest.fixture(autouse=True)
def release_at_the_end():
    released.clear()
    yield
    released.set()


@pytest.fixture
def host():
    return LocalToolHost(TOOLS, grace_s=0.05)


def granted(**changes):
    values = {"root": "/nowhere", "writable": True, "level": "full", "allowed": NAMES}
    return ToolGrant.model_validate(values | changes)


def envelope(name, timeout_s=None, **arguments):
    return ToolInvocation(
        run="run", call_id="c1", idempotency_key="key", name=name, arguments=arguments,
        timeout_s=timeout_s,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("t.add", {"left": 2}, "3"),
        ("plus", {"left": 2, "right": 5}, "7"),
        ("t.write", {}, "done"),
        ("t.say", {"count": 3, "text": "ab"}, "ababab"),
        ("t.share", {}, '"NaN"'),
    ],
    ids=["default", "alias", "none", "text", "no JSON number"],
)
async def test_results(host, name, arguments, text):
    output = await host.call(envelope(name, **arguments), granted())
    assert (output.outcome, output.text, output.code) == ("ok", text, "")


async def test_the_call_knows_its_facts(host):
    output = await host.call(envelope("t.facts"), granted())
    assert '"key": "key"' in output.text
    assert '"root": "/nowhere"' in output.text


@pytest.mark.parametrize(
    ("name", "grant", "outcome", "code"),
    [
        ("t.nothing", granted(), "error", "unknown_tool"),
        ("T.ADD", granted(), "error", "unknown_tool"),
        ("t.аdd", granted(), "error", "unknown_tool"),
        ("t.add", granted(allowed=("t.say",)), "denied", "denied"),
        ("t.add", granted(level="minimal"), "denied", "denied"),
        ("t.write", granted(level="readonly"), "denied", "denied"),
        ("t.write", granted(writable=False), "denied", "denied"),
        ("human.ask", granted(), "denied", "denied"),
    ],
    ids=[
        "unknown", "other case", "look-alike", "not granted", "minimal", "level", "read-only",
        "person",
    ],
)  # fmt: skip
async def test_refusals(host, name, grant, outcome, code):
    output = await host.call(envelope(name, left=1, question="?"), grant)
    assert (output.outcome, output.code) == (outcome, code)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({}, "'left' is a required property"),
        ({"left": "x"}, "left: 'x' is not of type 'integer'"),
        ({"left": 1, "extra": 2}, "'extra' was unexpected"),
        ({"left": True}, "left"),
    ],
    ids=["missing", "type", "unknown", "boolean"],
)
async def test_arguments_are_checked_and_explained(host, arguments, part):
    output = await host.call(envelope("t.add", **arguments), granted())
    assert (output.outcome, output.code) == ("error", "invalid_arguments")
    assert part in output.text
    assert "It takes: left, right?" in output.text


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("t.fail", {"kind": "tool"}, "not_found"),
        ("t.fail", {"kind": "perdure"}, "not_found"),
        ("t.fail", {"kind": "value"}, "tool_failed"),
        ("t.fail", {"kind": "exit"}, "tool_failed"),
        ("t.fail", {"kind": "stop"}, "tool_failed"),
        ("t.fail", {"kind": "interrupt"}, "tool_failed"),
        ("t.cancelled", {}, "tool_failed"),
        ("t.exits", {}, "tool_failed"),
    ],
    ids=lambda value: str(value),
)
async def test_failures_are_outputs(host, name, arguments, code):
    output = await host.call(envelope(name, **arguments), granted())
    assert (output.outcome, output.code) == ("error", code)


@pytest.mark.parametrize(
    ("name", "abandoned"),
    [("t.wait", []), ("t.polite", []), ("t.deaf", ["c1"]), ("t.blocked", ["c1"])],
    ids=["listens", "looks", "deaf task", "blocked thread"],
)
async def test_deadline(host, name, abandoned):
    output = await host.call(envelope(name), granted())
    assert (output.outcome, output.code) == ("error", "timeout")
    assert "0.05 s" in output.text
    assert host.abandoned == abandoned
    if name == "t.deaf":
        assert "abandoned" in output.text
        assert "look before you repeat it" in output.text


async def test_the_envelope_may_set_the_deadline(host):
    output = await host.call(envelope("t.polite", timeout_s=0.01), granted())
    assert "0.01 s" in output.text


async def test_cancellation_is_passed_on_and_reaches_the_tool(host):
    entered, ended = asyncio.Event(), asyncio.Event()

    @tool(name="t.long")
    async def long() -> None:
        """Wait."""
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(
        LocalToolHost([long]).call(envelope("t.long"), granted(allowed=("t.long",)))
    )
    await entered.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_output_cap(host):
    whole = await host.call(envelope("t.say", count=HARD_CAP_BYTES), granted())
    assert (len(whole.text), whole.truncated) == (HARD_CAP_BYTES, False)
    cut = await host.call(envelope("t.say", count=HARD_CAP_BYTES, text="é"), granted())
    assert cut.truncated
    assert cut.text.startswith("éé")
    assert "cut at" in cut.text[-100:]


async def test_output_can_be_stored_anywhere(host):
    output = await host.call(envelope("t.say", count=1, text="a\0b"), granted())
    assert output.text == "a\N{REPLACEMENT CHARACTER}b"


async def test_catalog_is_ordered_and_names_are_unique(host):
    assert [fact.name for fact in await host.catalog()] == sorted(NAMES)
    with pytest.raises(InvalidInput, match=r"Two tools .*Rename one of them"):
        LocalToolHost([add, other_add])


def test_a_tool_that_was_kept_beside_its_mended_self_is_told_so() -> None:
    with pytest.raises(InvalidInput, match=r"both are the same function.*price\.rehearsed\(look\)"):
        LocalToolHost([add, add.mended(_words)])


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        pytest.param("t.mended", {"a": "3"}, {"left": 3}, id="mended"),
        pytest.param("sum", {"a": "3", "right": 2}, {"left": 3, "right": 2}, id="by its alias"),
        pytest.param("t.mended", {"a": "x"}, {"a": "x"}, id="it cannot"),
        pytest.param("t.add", {"a": "3"}, {"a": "3"}, id="a tool that mends nothing"),
        pytest.param("t.other", {"a": "3"}, {"a": "3"}, id="no such tool"),
    ],
)
def test_a_tool_mends_what_it_is_given(
    name: str, given: dict[str, JsonValue], kept: dict[str, JsonValue]
) -> None:
    host = LocalToolHost([add, mended_add])
    before = dict(given)
    assert host.mended(name, given) == kept
    assert given == before, "what the model said stays"


def test_what_is_no_arguments_mends_nothing() -> None:
    wrong = add.mended(lambda given: ["no", "object"])  # pyright: ignore[reportArgumentType]
    assert LocalToolHost([wrong]).mended("t.add", {"left": 1}) == {"left": 1}


def _endless() -> Iterator[str]:
    while True:
        yield "x" * 1000


def _stuck() -> Iterator[int]:
    yield 1
    released.wait()


async def _later() -> AsyncIterator[int]:
    yield 1


RETURNED: dict[str, tuple[Callable[[], object], str, str]] = {
    "a generator": (lambda: (n * n for n in range(3)), "ok", "[\n  0,\n  1,\n  4\n]"),
    "one inside": (lambda: {"a": [iter([1])]}, "ok", '{\n  "a": [\n    [\n      1\n    ]\n  ]\n}'),
    "one without an end": (lambda: {"rows": _endless()}, "ok", "[… cut at 5,242,880 of"),
    "one that waits": (_stuck, "error", "did not finish within 0.2 s"),
    "an asynchronous one": (_later, "error", "asynchronous generator, which nothing reads"),
    "what says nothing": (object, "error", "a value of the type object, which is neither a text"),
    "one inside a value": (lambda: {"page": [object()]}, "error", "of the type object"),
    "a function": (lambda: _later, "error", "of the type function, which is neither"),
    "what describes itself": (lambda: {"n": 3 + 2j}, "ok", "3+2j"),
    "what holds itself": (lambda: [(own := list[object]()), own.append(own)], "error", "Circular"),
}


@pytest.mark.parametrize(("returns", "outcome", "said"), RETURNED.values(), ids=RETURNED)
async def test_what_a_tool_returns_is_read_within_its_time(
    returns: Callable[[], object], outcome: str, said: str
) -> None:
    @tool(name="t.returns", timeout_s=0.2 if returns is _stuck else 60)
    def returning() -> object:
        return returns()

    host = LocalToolHost([returning], grace_s=0.1)
    output = await host.call(envelope("t.returns"), granted(allowed=("t.returns",)))
    released.set()
    released.clear()
    assert output.outcome == outcome
    assert said in output.text
