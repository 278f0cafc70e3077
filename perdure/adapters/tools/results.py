"""Turns what a tool returned into text.

What it returned is code of others too: a generator that never ends, or a `__repr__` that blocks. So
this runs within the time of the call, and outside of the event loop.
"""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import takewhile

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError

from perdure.adapters.tools.execution import (
    HARD_CAP_BYTES,
    Stop,
    in_thread,
    tool_output,
    value_of,
)
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.tools.definitions import HeldBy, Showing, ToolOutput
from perdure.extending.foreign_code import contained

# NaN and the infinities are no JSON; null would say "nothing".
_VALUE: TypeAdapter[object] = TypeAdapter(object, config=ConfigDict(ser_json_inf_nan="strings"))
# `<Page object at 0x7f0ab873acf0>`: an address in memory tells nothing, and looks like success.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+>\Z")
_AT_ONCE = str | int | float | None


async def output_of(function: Callable[[], object], stop: Stop) -> ToolOutput:
    """Call a tool, and read what it returns.

    Args:
        function: the tool with its arguments.
        stop: says when the time is up; reading ends then.
    """
    value = await value_of(function)
    # These run no code of others when they are written, so they need no thread.
    if isinstance(value, _AT_ONCE | Showing):
        return _output(value, stop)
    return await in_thread(lambda: _output(value, stop))


def as_text(value: object) -> str:
    """A text as it is, anything else as JSON; raises `ToolFailure` for what neither can say."""
    if isinstance(value, str):
        return value
    if value is None:
        return "done"
    nameless: list[object] = []

    def words(inner: object) -> str:
        said = repr(inner)
        if _ADDRESS.search(said):
            nameless.append(inner)
            raise TypeError("it says nothing about itself")
        return said

    with contained():
        try:
            return _VALUE.dump_json(value, indent=2, fallback=words).decode()
        except PydanticSerializationError:
            if not nameless:
                raise
    raise ToolFailure(
        f"The tool returned a value of the type {type(nameless[0]).__name__}, which is neither a "
        "text nor JSON; report this to its author, who can return what is in it. What the tool "
        "did stays done.",
        reason="tool_failed",
    )


def _output(value: object, stop: Stop) -> ToolOutput:
    match value:
        case HeldBy(value=inner, held=held):
            text = as_text(_Drawing(stop).drawn(inner))
            return tool_output("ok", text).model_copy(update={"held": held})
        case Showing(text=text, files=files):
            return tool_output("ok", text).model_copy(update={"files": files})
        case _:
            return tool_output("ok", as_text(_Drawing(stop).drawn(value)))


class _Drawing:
    """Takes values out of generators, until they make more text than any output has."""

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._size = 0
        self._around: set[int] = set()

    def drawn(self, value: object) -> object:
        """The value with lists in place of generators."""
        self._size += len(value) if isinstance(value, str | bytes) else 1
        if id(value) in self._around:
            return value  # it holds itself, which is told when it is written
        self._around.add(id(value))
        try:
            return self._inside(value)
        finally:
            # Only what is around a value counts: the same one may stand in several places.
            self._around.discard(id(value))

    def _inside(self, value: object) -> object:
        match value:
            case dict():
                return {name: self.drawn(item) for name, item in value.items()}
            case list() | tuple():
                return [self.drawn(item) for item in value]
            case Iterator():
                return [self.drawn(item) for item in takewhile(self._goes_on, value)]
            case AsyncIterator():
                raise ToolFailure(
                    "The tool returned an asynchronous generator, which nothing reads; report this "
                    "to its author, who can return a list.",
                    reason="tool_failed",
                )
            case _:
                return value

    def _goes_on(self, item: object) -> bool:
        # `<=`: the text has to grow above the cap, or `tool_output` would not say that it was cut.
        return self._size <= HARD_CAP_BYTES and not self._stop.is_set()
