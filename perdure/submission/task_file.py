"""Reads task files, and files of defaults."""

from pathlib import Path

from pydantic import JsonValue

from perdure.domain.foundation.errors import InvalidInput
from perdure.strict_yaml import parse
from perdure.text_files import read_text

FILE_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
TOO_LARGE = "Move long texts into files of their own and refer to them with `file:`."
CURE = "Correct that place; `perdure schema KIND` shows what a task file holds."


def read_file(path: Path) -> dict[str, JsonValue]:
    """The fields of a task file, or of a file of defaults.

    Raises:
        NotFound: the file does not exist.
        InvalidInput: it cannot be read, is too large, or is not YAML or JSON with fields.
    """
    text = read_text(path, too_large=TOO_LARGE)
    return fields_of(parse(text, named=str(path), cure=CURE), named=str(path))


def is_readable(path: Path) -> bool:
    """Whether there is a file, or a pipe such as `/dev/stdin`, which can be read once."""
    return path.exists() and not path.is_dir()


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


def _word(value: JsonValue) -> str:
    match value:
        case list():
            return "a list"
        case str():
            return "a text"
        case _:
            return "one value"
