"""Whether an output is the answer that the input is labelled with."""

import unicodedata

from pydantic import JsonValue

from perdure.domain.foundation.json_extraction import objects_in, read_json


def is_right(output: str, expected: JsonValue) -> bool:
    """Compare an output with the right answer.

    Texts are the same apart from case, white space around and between words, and a full stop at the
    end. Anything else is compared as JSON; one object may stand among other words.
    """
    if isinstance(expected, str):
        return _plain(output) == _plain(expected)
    try:
        return _same(read_json(output), expected)
    except ValueError:
        whole = [found.fields for found in objects_in(output) if not found.cut]
        return len(whole) == 1 and _same(whole[0], expected)


def _plain(text: str) -> str:
    words = unicodedata.normalize("NFKC", text).casefold().split()
    line = " ".join(words)
    # A text of one full stop stays: it is not the same as no text.
    return line.removesuffix(".").rstrip() or line


def _same(found: JsonValue, expected: JsonValue) -> bool:
    # `True == 1` in Python, at any depth, and no reader of a label means that.
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(
            _same(value, expected[name]) for name, value in found.items()
        )
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(_same, found, expected))
    return found == expected
