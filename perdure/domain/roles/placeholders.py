"""Placeholders of a definition, `{{name}}`: values are put in as data, never expanded again."""

import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from perdure.domain.foundation.problems import Problem, nearest_name, path_of

# `\{{name}}` stays as it is written, without the backslash.
_PLACEHOLDER = re.compile(r"(\\?)\{\{[ \t]*([^{}\n]*?)[ \t]*\}\}")

Step = int | str
Names = Sequence[str]


def filled(value: JsonValue, values: Mapping[str, str]) -> JsonValue:
    """The value with every placeholder in its texts replaced, in one pass.

    Placeholders without a value stay; `unknown_placeholders` finds them first.
    """
    match value:
        case str():
            return filled_text(value, values)
        case list():
            return [filled(item, values) for item in value]
        case dict():
            return {name: filled(item, values) for name, item in value.items()}
        case _:
            return value


def filled_text(text: str, values: Mapping[str, str]) -> str:
    """One text with its placeholders replaced."""
    return _PLACEHOLDER.sub(lambda found: _replacement(found, values), text)


def placeholder_alone(text: str) -> str | None:
    """The name of the placeholder that a text consists of, or None."""
    found = _PLACEHOLDER.fullmatch(text.strip())
    return found[2] if found and not found[1] else None


def unknown_placeholders(value: JsonValue, known: Names, *, root: str = "") -> tuple[Problem, ...]:
    """One problem for each placeholder that stands for no parameter, with its path."""
    allowed = f"one of {', '.join(known)}" if known else "no placeholder; no parameter is declared"
    return tuple(
        Problem(
            path=path_of(root, steps) or "input",
            found=f"the placeholder {{{{{name}}}}}",
            allowed=allowed,
            nearest=nearest_name(name, known),
        )
        for steps, text in _texts(value, ())
        for name in dict.fromkeys(_names(text))
        if name not in known
    )


def _names(text: str) -> list[str]:
    return [found[2] for found in _PLACEHOLDER.finditer(text) if not found[1]]


def _texts(value: JsonValue, steps: tuple[Step, ...]) -> Iterator[tuple[tuple[Step, ...], str]]:
    match value:
        case str():
            yield steps, value
        case list():
            for index, item in enumerate(value):
                yield from _texts(item, (*steps, index))
        case dict():
            for name, item in value.items():
                yield from _texts(item, (*steps, name))
        case _:
            return


def _replacement(found: re.Match[str], values: Mapping[str, str]) -> str:
    if found[1]:
        return found[0][1:]
    return values.get(found[2], found[0])
