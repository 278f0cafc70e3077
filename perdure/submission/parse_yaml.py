"""Parses task files: YAML or JSON of limited size, without dates and repeated keys."""

from collections.abc import Hashable
from pathlib import Path

import yaml
from pydantic import JsonValue, TypeAdapter, ValidationError

from perdure.domain.foundation.errors import InvalidInput, NotFound

FILE_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
MAX_FILE_BYTES = 1024 * 1024
MAX_NODES = 50_000
_JSON: TypeAdapter[JsonValue] = TypeAdapter(JsonValue)
_DATE = "tag:yaml.org,2002:timestamp"


class _Loader(yaml.SafeLoader):
    """A YAML loader that leaves dates as text and refuses repeated keys."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if isinstance(key, yaml.ScalarNode) and name in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {name!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


# Implicit types by the first character of a value, without that of dates.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if tag != _DATE]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_file(path: Path) -> dict[str, JsonValue]:
    """The fields of a task file, or of a file of defaults.

    Raises:
        NotFound: the file does not exist.
        InvalidInput: it is not YAML or JSON with fields, or is too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise NotFound(
            f"The file {path} cannot be read: {error.strerror or error}.", cure="Check the path."
        ) from error
    if len(data) > MAX_FILE_BYTES:
        raise InvalidInput(
            f"The file {path} is larger than {MAX_FILE_BYTES} bytes.",
            cure="Move long texts into files of their own and refer to them with `file:`.",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"The file {path} is not UTF-8 text ({error.reason}).",
            cure="Save it as UTF-8, or name another file.",
        ) from error
    return fields_of(parse(text, named=str(path)), named=str(path))


def parse(text: str, *, named: str) -> JsonValue:
    """Parse YAML, and so JSON, into plain data; raises `InvalidInput`, which names the text."""
    try:
        loaded: object = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{named} cannot be read as YAML or JSON: {_place(error)}.",
            cure="Correct that place; `perdure schema KIND` shows what a task file holds.",
        ) from error
    _bounded(loaded, named=named)
    try:
        return _JSON.validate_python(loaded)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"][:3])
        raise InvalidInput(
            f"{named} holds something other than a text, number, list or block: {place}.",
            cure="Write it as one of these; quote dates.",
        ) from error


def fields_of(value: JsonValue, *, named: str) -> dict[str, JsonValue]:
    """The fields in a file; an empty file has none."""
    match value:
        case None:
            return {}
        case dict():
            return value
        case _:
            raise InvalidInput(
                f"{named} holds {_word(value)} instead of fields such as `kind:` and `goal:`.",
                cure="`perdure new` writes a file to begin with.",
            )


def _bounded(value: object, *, named: str) -> None:
    """Limit the number of values with aliases expanded, which can make a small file huge."""
    waiting, count = [value], 0
    while waiting:
        item = waiting.pop()
        count += 1
        if count > MAX_NODES:
            raise InvalidInput(
                f"{named} holds more than {MAX_NODES} values.",
                cure="Shorten it; aliases count as what they repeat.",
            )
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _place(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _word(value: JsonValue) -> str:
    match value:
        case list():
            return "a list"
        case str():
            return "a text"
        case _:
            return "one value"
