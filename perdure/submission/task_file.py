"""Reads task files, and files of defaults."""

from pathlib import Path

from pydantic import JsonValue

from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.strict_yaml import parse

FILE_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
MAX_FILE_BYTES = 1024 * 1024
CURE = "Correct that place; `perdure schema KIND` shows what a task file holds."


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
    return fields_of(parse(text, named=str(path), cure=CURE), named=str(path))


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
