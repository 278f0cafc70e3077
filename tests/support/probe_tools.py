"""Tools for tests of the loops, loaded as a plugin: named results, delays, failures, effects."""

import asyncio
import threading

from pydantic import JsonValue

from perdure.extending.tool_decorator import ToolContext, tool

# What ran, per run and in order; tests read it in the worker's own process.
CALLS: dict[str, list[str]] = {}
# A tool that waits holds until a test sets its event, from another thread.
RELEASED: dict[str, threading.Event] = {}


def _note(context: ToolContext, what: str) -> None:
    CALLS.setdefault(context.run, []).append(what)


@tool(name="probe.echo", idempotent=True, aliases=("repeat_after_me",))
def echo(context: ToolContext, text: str) -> str:
    """Say the text again.

    Args:
        text: what to say.
    """
    _note(context, f"echo {text}")
    return text


@tool(name="probe.same", idempotent=True)
def same(context: ToolContext, text: str) -> str:
    """Give the same result, whatever is asked.

    Args:
        text: anything.
    """
    _note(context, f"same {text}")
    return "always the same"


def _as_number(given: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Models are known to write `page 7`."""
    number = given.get("number")
    return (
        given | {"number": int(number.removeprefix("page "))} if isinstance(number, str) else given
    )


@tool(name="probe.page", idempotent=True)
def page(number: int, size: int = 1024) -> str:
    """One page of a long text, different for each number.

    Args:
        number: which page.
        size: characters of the page.
    """
    line = f"page {number} has words that differ from the other pages, number {number * 7919}. "
    return (line * (size // len(line) + 1))[:size]


page = page.mended(_as_number)


@tool(name="probe.fail", idempotent=True)
def fail(text: str) -> str:
    """Fail.

    Args:
        text: the message.
    """
    raise ValueError(text)


@tool(name="probe.put", access="write", idempotent=True)
def put(context: ToolContext, text: str) -> str:
    """Keep a text, and say the same of each.

    Args:
        text: anything.
    """
    _note(context, f"put {text}")
    return "done"


@tool(name="probe.slow", access="execute", timeout_s=0.2)
async def slow() -> str:
    """Never end by itself."""
    await asyncio.Event().wait()
    return "unreachable"


@tool(name="probe.deaf", access="execute", timeout_s=0.1)
def deaf() -> str:
    """Ignore the deadline and every request to stop."""
    threading.Event().wait()
    return "unreachable"


@tool(name="probe.block", access="execute", timeout_s=0.2)
async def block(context: ToolContext) -> str:
    """Block its event loop, far longer than its deadline, until the test lets go."""
    released = RELEASED.setdefault(context.run, threading.Event()).wait(timeout=30)
    return "released" if released else "nobody let go"


@tool(name="probe.wait", idempotent=True)
def wait(context: ToolContext, text: str) -> str:
    """Hold until the test lets go.

    Args:
        text: the result.
    """
    _note(context, f"start {text}")
    released = RELEASED.setdefault(context.run, threading.Event())
    while not released.wait(timeout=0.02) and not context.stopping():
        pass
    _note(context, f"end {text}")
    return text


@tool(name="probe.pair", idempotent=True)
async def pair(context: ToolContext, text: str, delay: float = 0.0) -> str:
    """Note its start and its end, with time between.

    Args:
        text: the result.
        delay: seconds between.
    """
    _note(context, f"start {text}")
    await asyncio.sleep(delay)
    _note(context, f"end {text}")
    return text


@tool(name="probe.alone", idempotent=True, exclusive=True)
async def alone(context: ToolContext, text: str) -> str:
    """Run by itself.

    Args:
        text: the result.
    """
    _note(context, f"start {text}")
    await asyncio.sleep(0.02)
    _note(context, f"end {text}")
    return text


@tool(name="probe.approved", needs_approval=True, access="execute")
def approved(context: ToolContext, amount: int) -> str:
    """Do something that a person allows first.

    Args:
        amount: how much.
    """
    _note(context, f"approved {amount}")
    return f"paid {amount}"


@tool(name="probe.hang", access="execute", timeout_s=60)
async def hang() -> str:
    """Take very long."""
    await asyncio.Event().wait()
    return "unreachable"


@tool(name="probe.once", access="execute", timeout_s=60)
async def once(context: ToolContext, text: str) -> str:
    """Have an effect, and take very long after it.

    Args:
        text: the effect.
    """
    _note(context, text)
    await asyncio.Event().wait()
    return "unreachable"
