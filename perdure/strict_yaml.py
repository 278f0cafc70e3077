"""Reads what people write as YAML or JSON: plain data of limited size, without repeated keys.

Keys are names, so they are texts as they are written: `on:` is no `true`, and `2026:` no number.
Dates stay texts. Of a key that is given twice, one value would win without a word.
"""

import json
import re
from contextlib import suppress
from math import isfinite

import yaml
from pydantic import JsonValue, TypeAdapter

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import format_value, path_of

MAX_NODES = 50_000
# Characters that aliases may add to what is written: 5,000 of them make 500 MB of a text of 100 KB.
MOST_REPEATED = 1024 * 1024
# A value in a block has a key beside it, which is counted while it is read.
PARTS_OF_A_VALUE = 2
CURE = "Correct that place."
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
MOST_DEEP = 200
DEEP_TOLD = 6
KINDS = {"int": "number", "float": "number", "bool": "truth value", "timestamp": "date"}
SURROGATE = re.compile(r"[\ud800-\udfff]")
_PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")
_TAG = "tag:yaml.org,2002:"
_DATE, _MERGE, _TEXT = (f"{_TAG}{kind}" for kind in ("timestamp", "merge", "str"))
_PLAIN = frozenset(f"{_TAG}{kind}" for kind in ("int", "float", "bool", "null"))
_Pairs = list[tuple[yaml.Node, yaml.Node]]


class _Loader(yaml.SafeLoader):
    """Leaves dates as text, reads keys as texts, and refuses repeated keys and endless merges.

    It stops at the first value that is one too many: a megabyte of short ones takes half a minute.
    """

    def __init__(self, stream: str, *, most: int) -> None:
        super().__init__(stream)
        self._read: set[int] = set()
        self._most, self._left = most, most * PARTS_OF_A_VALUE

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a value or a key, as long as there are not too many."""
        self._left -= 1
        if self._left < 0:
            raise yaml.MarkedYAMLError(problem=f"it holds more than {self._most} values")
        node = super().compose_node(parent, index)
        if isinstance(node, yaml.ScalarNode):
            # JSON may write a sign beyond U+FFFF as two escapes, which YAML takes for two signs.
            node.value = _PAIR.sub(_joined, node.value)
        return node

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Take in what `<<` names. A mapping that others merge may come here several times."""
        if id(node) not in self._read:
            self._read.add(id(node))
            node.value = [(_as_text(key), value) for key, value in node.value]
            _require_unique(node.value)
        size = len(node.value)
        for key, value in node.value:
            for merged in _merged(key, value):
                self.flatten_mapping(merged)
                size += len(merged.value)
        if size > MAX_NODES:
            raise yaml.MarkedYAMLError(
                problem=f"`<<` makes more than {MAX_NODES} values", problem_mark=node.start_mark
            )
        super().flatten_mapping(node)
        # Of the same key, the last pair counts: the mapping's own come after merged ones.
        last = {(key.tag, str(key.value)): (key, value) for key, value in node.value}
        node.value = list(last.values())

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """Construct a value; PyYAML raises any error at `!!bool maybe` or a number too long."""
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, AttributeError, OverflowError):
            kind = KINDS.get(node.tag.removeprefix(_TAG), "value")
            raise yaml.MarkedYAMLError(
                problem=f"this is no {kind} that can be read", problem_mark=node.start_mark
            ) from None


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


def _as_text(key: yaml.Node) -> yaml.Node:
    """A key as it is written; `on`, `1.10` and `2026` would be other things as values."""
    if not isinstance(key, yaml.ScalarNode) or key.tag not in _PLAIN:
        return key
    return yaml.ScalarNode(_TEXT, key.value, key.start_mark, key.end_mark)


def _require_unique(pairs: _Pairs) -> None:
    seen: set[str] = set()
    for key, _ in pairs:
        name = str(key.value)
        if isinstance(key, yaml.ScalarNode) and name in seen:
            raise yaml.MarkedYAMLError(
                problem=f"the key {name!r} is given twice", problem_mark=key.start_mark
            )
        seen.add(name)


def _merged(key: yaml.Node, value: yaml.Node) -> list[yaml.MappingNode]:
    """The mappings that a pair merges into the one that it is in."""
    if key.tag != _MERGE:
        return []
    named = value.value if isinstance(value, yaml.SequenceNode) else [value]
    return [one for one in named if isinstance(one, yaml.MappingNode)]


# Implicit types by the first character of a value, without that of dates.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != _DATE]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def parse(text: str, *, named: str, cure: str = CURE, most: int = MAX_NODES) -> JsonValue:
    """Parse YAML, and so JSON, into plain data.

    Args:
        text: what was written.
        named: what it is, for errors, such as the path of its file.
        cure: what an error tells to do where it is no YAML.
        most: values that it may hold, counted with aliases expanded.

    Raises:
        InvalidInput: it is no YAML, repeats a key, or holds what JSON cannot say; names the place.
    """
    try:
        loaded = _loaded(text, most=most)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidInput(
            f"{named} cannot be read as YAML or JSON: {_place(error)}.", cure=cure
        ) from error
    _require_plain(loaded, named=named, most=most, most_characters=len(text) + MOST_REPEATED)
    return _JSON.validate_python(loaded)


def _loaded(text: str, *, most: int) -> object:
    # JSON is not quite a part of YAML, which takes 1e5 for a text, and refuses tabs that indent.
    with suppress(ValueError, RecursionError):
        return _json(text)
    loader = _Loader(text, most=most)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _json(text: str) -> object:
    """The object or list that a text is in JSON; raises `ValueError`, and then YAML says why."""
    if not text.lstrip().startswith(("{", "[")):
        raise ValueError
    return json.loads(
        text, object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_constant
    )


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError
    return fields


def _finite(written: str) -> float:
    number = float(written)
    if not isfinite(number):
        raise ValueError
    return number


def _no_constant(written: str) -> object:
    raise ValueError(written)


def _require_plain(value: object, *, named: str, most: int, most_characters: int) -> None:
    """Refuse what JSON cannot say, and more values or characters than anybody writes.

    Both are counted with aliases expanded, which can make a small file huge.
    """
    # A list instead of recursion, which nested values would drive into Python's own limit.
    waiting: list[tuple[object, tuple[str | int, ...]]] = [(value, ())]
    count, characters = 0, 0
    while waiting:
        item, path = waiting.pop()
        count += 1
        characters += _characters(item)
        if count > most or characters > most_characters:
            what = f"{most} values" if count > most else f"{most_characters:,} characters"
            raise InvalidInput(
                f"{named} holds more than {what}.",
                cure="Shorten it; aliases count as what they repeat.",
            )
        why = _foreign(item) if len(path) <= MOST_DEEP else f"more than {MOST_DEEP} levels"
        if why:
            raise InvalidInput(
                f"{named} cannot be used at {path_of('', path[:DEEP_TOLD]) or 'its top'}: found "
                f"{why}; allowed: texts, numbers, true, false, null, lists and blocks.",
                cure="Write it as one of these; quotes make a text of anything.",
            )
        if isinstance(item, dict):
            waiting.extend((below, (*path, str(name))) for name, below in item.items())
        elif isinstance(item, list):
            waiting.extend((below, (*path, index)) for index, below in enumerate(item))


def _characters(value: object) -> int:
    """The length of a text, or of the keys of a mapping."""
    if isinstance(value, dict):
        return sum(len(key) for key in value if isinstance(key, str))
    return len(value) if isinstance(value, str) else 0


def _foreign(value: object) -> str:
    """What a value is that JSON does not have; empty for all others."""
    match value:
        case None | bool() | int() | float() | list():
            return ""
        case str():
            return "half a character (a surrogate)" if SURROGATE.search(value) else ""
        case dict():
            strange = next((key for key in value if not isinstance(key, str)), None)
            return "" if strange is None else f"the key {format_value(strange)}, which is no text"
        case bytes():
            return "bytes (!!binary)"
        case _:
            return f"a {type(value).__name__}"


def _place(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    if isinstance(error, RecursionError):
        return "it is nested too deep, or holds itself"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
