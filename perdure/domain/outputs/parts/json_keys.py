"""Outputs that are one JSON object: each top-level key is a part, with its exact text."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from perdure.domain.foundation.json_extraction import to_encodable

# Code and prose may hold many braces, and each try may read on to the end.
BRACES_TRIED = 8
_SPACE = re.compile(r"[ \t\n\r]*")


@dataclass(frozen=True, slots=True)
class Member:
    """A key with where its value begins and ends in the text."""

    key: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Object:
    """The text of a JSON object, and its members in order; whole unless it broke off."""

    text: str
    members: tuple[Member, ...]
    whole: bool

    def raw(self, key: str) -> str | None:
        """The JSON text of a value, None when the key is absent; of doubles the last counts."""
        found = [member for member in self.members if member.key == key]
        return self.text[found[-1].start : found[-1].end] if found else None


def tidy(text: str) -> str:
    """Extract the JSON object from a draft.

    An object that broke off keeps its complete members; a draft without any stays as it is.
    """
    found = read(text)
    return text.strip() if found is None else found.text


def part_text(text: str, part: str, *, as_json: bool) -> str:
    """The value of a key: its JSON, or for a text the text itself; empty when it is absent."""
    found = read(text)
    raw = None if found is None else found.raw(part)
    if raw is None:
        return ""
    value = None if as_json or not raw.startswith('"') else json.loads(raw)
    # JSON may hold half an emoji by its escape, and what is taken from it could not be stored.
    return to_encodable(value) if isinstance(value, str) else raw


def replaced(text: str, replies: Mapping[str, str], parts: Sequence[str]) -> str:
    """The object with new values (JSON) of some keys; absent keys are added in the rubric's order.

    All other bytes stay as they are.
    """
    found = read(text) or Object("{}", (), whole=True)
    present = {member.key: member for member in found.members}
    whole = found.text
    # From the end, so that the places before stay right.
    known = sorted((m for m in present.values() if m.key in replies), key=lambda m: -m.start)
    for member in known:
        whole = whole[: member.start] + replies[member.key] + whole[member.end :]
    for key in parts:
        if key in replies and key not in present:
            whole = _added(whole, key, replies[key])
    return whole


def reply(text: str, part: str) -> str:
    """The JSON value in a model's reply: bare, or in an object with the key; else empty."""
    bare = _unwrapped(text)
    # Asked for one key, a model may give the member without braces around it.
    fragment = _object(f"{{{bare.rstrip(',')}}}", 0) if bare.startswith('"') else None
    for found in (read(bare), fragment):
        raw = found.raw(part) if found is not None and found.whole else None
        if raw is not None:
            return raw
    return bare if _value_end(bare, 0) == len(bare) else ""


def read(text: str) -> Object | None:
    """The first JSON object in a text, prose and fences around it left out; None without one."""
    bare = _unwrapped(text)
    if not bare.startswith("{") and _value_end(bare, 0) == len(bare):
        return None  # a list or a plain value, whatever objects it holds
    opened = [found.start() for found in re.finditer(r"\{", text)][:BRACES_TRIED]
    return next((found for at in opened if (found := _object(text, at)) is not None), None)


def _object(text: str, start: int) -> Object | None:
    members, end, whole = _members(text, start)
    shifted = tuple(Member(one.key, one.start - start, one.end - start) for one in members)
    if whole:
        return Object(text[start:end], shifted, whole=True)
    # Closed, so that what is complete of it can be read as JSON.
    return Object(text[start:end] + "\n}", shifted, whole=False) if shifted else None


def _members(text: str, start: int) -> tuple[list[Member], int, bool]:
    """The members from an opening brace on, where they end, and whether the object is closed."""
    found: list[Member] = []
    at, end = _skip(text, start + 1), start + 1
    if text[at : at + 1] == "}":
        return found, at + 1, True
    while (member := _member(text, at)) is not None:
        found.append(member)
        at = end = member.end
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            return found, at + 1, True
        if text[at : at + 1] != ",":
            break
        at = _skip(text, at + 1)
    return found, end, False


def _member(text: str, at: int) -> Member | None:
    key_end = _value_end(text, at) if text[at : at + 1] == '"' else None
    if key_end is None:
        return None
    colon = _skip(text, key_end)
    start = _skip(text, colon + 1)
    end = _value_end(text, start) if text[colon : colon + 1] == ":" else None
    return None if end is None else Member(json.loads(text[at:key_end]), start, end)


def _value_end(text: str, at: int) -> int | None:
    try:
        return _DECODER.raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return None  # no JSON value, or too deep to be worth it


# Python reads `NaN` and `Infinity`, which JSON does not have.
def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _added(text: str, key: str, value: str) -> str:
    """A key more before the closing brace, set as the members before it are."""
    name = json.dumps(key, ensure_ascii=False)
    members, _, _ = _members(text, 0)
    if not members:
        return f"{{{name}: {value}}}"
    last, first = members[-1].end, _skip(text, 1)
    space = text[1:first] or " "
    return f"{text[:last]},{space}{name}: {value}{text[last:]}"


def _unwrapped(text: str) -> str:
    fenced = re.fullmatch(r"```\w*\s*\n(.*?)\n?```", text.strip(), re.DOTALL)
    return (fenced.group(1) if fenced else text).strip()
