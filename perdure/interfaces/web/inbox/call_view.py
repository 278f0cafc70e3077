"""Splits a tool call that waits for approval into parts, so that the page can show it by its kind.

The question is one text, the same on every interface. It is only arranged here: each line is shown
once, and a line of unknown form stays as it is.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Literal

LineKind = Literal["added", "removed", "place", "file", "same"]
Shape = Literal["change", "command", "address", "table"]
MANY_LINES = "  | "
HASH = "hash of the call: "
_ARGUMENT = re.compile(r"(?P<name>[A-Za-z_][\w.-]*):(?: (?P<value>.*))?")
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_MARKS: tuple[tuple[str, LineKind], ...] = (("@@", "place"), ("+", "added"), ("-", "removed"))


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the call as text."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a diff."""

    kind: LineKind
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallView:
    """A tool call, arranged for display.

    Args:
        shape: what to show first: a file change, a command, an address, or nothing.
        main: the command or the address.
        arguments: the other arguments.
        diff: the file change.
        rest: lines of unknown form.
    """

    shape: Shape
    main: str = ""
    arguments: tuple[Argument, ...] = ()
    diff: tuple[DiffLine, ...] = ()
    rest: str = ""


def call_view(prompt: str, *, tool: str) -> CallView | None:
    """The tool call in a question; None if the question does not ask to approve one."""
    first, _, about = prompt.partition("\n")
    if first != f"Approve {tool}?":
        return None
    lines = about.split("\n")
    if lines[-1].startswith(HASH):
        lines = lines[:-1]
    begins = _begin_of_diff(lines)
    arguments, rest = _arguments(lines[:begins])
    diff = _diff(lines[begins:])
    main = next((one for one in arguments if _shape_of(one) != "table"), None)
    if diff or main is None:
        shape: Shape = "change" if diff else "table"
        return CallView(shape=shape, arguments=arguments, diff=diff, rest=rest)
    others = tuple(one for one in arguments if one is not main)
    rest = "" if rest == f"reads {main.value}" else rest  # the rehearsal repeats the address
    return CallView(shape=_shape_of(main), main=main.value, arguments=others, rest=rest)


def _shape_of(argument: Argument) -> Shape:
    if argument.name == "command":
        return "command"
    return "address" if argument.name == "url" and _ADDRESS.fullmatch(argument.value) else "table"


def _begin_of_diff(lines: Sequence[str]) -> int:
    """The index of the first line of a diff; the number of lines if there is none."""
    for index, (line, following) in enumerate(pairwise(lines)):
        if line.startswith("--- ") and following.startswith("+++ "):
            return index
    return len(lines)


def _diff(lines: Sequence[str]) -> tuple[DiffLine, ...]:
    # Only the first two lines are file headers; a later `--- ` line is removed text that begins
    # with dashes.
    return tuple(
        DiffLine("file" if index < 2 else _kind_of(line), line) for index, line in enumerate(lines)
    )


def _kind_of(line: str) -> LineKind:
    for mark, kind in _MARKS:
        if line.startswith(mark):
            return kind
    return "same"


def _arguments(lines: Sequence[str]) -> tuple[tuple[Argument, ...], str]:
    found: list[Argument] = []
    rest: list[str] = []
    at = 0
    while at < len(lines):
        read = _ARGUMENT.fullmatch(lines[at])
        at += 1
        many = list(takewhile(lambda line: line.startswith(MANY_LINES), lines[at:]))
        if read is None:
            rest.append(lines[at - 1])
        elif read["value"] is None:
            found.append(Argument(read["name"], "\n".join(one[len(MANY_LINES) :] for one in many)))
            at += len(many)
        else:
            found.append(Argument(read["name"], read["value"]))
    return tuple(found), "\n".join(rest)
