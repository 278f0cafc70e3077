"""What a worker's result comes to in one line, for the summary that its manager reads."""

from collections.abc import Mapping

from pydantic import JsonValue

FINDING_CHARACTERS = 150
_KEYS = ("findings", "result", "summary", "analysis", "answer", "output")
_EMPTY = frozenset({"", "-", "none", "null", "n/a", "na", "nil", "{}", "[]", "unknown"})


def key_finding(
    given: Mapping[str, JsonValue], *, tool_error: str = "", confidence: float | None = None
) -> str:
    """The first usable of the fields of a result; else its tool error, else its confidence."""
    told = (_told(given.get(key)) for key in _KEYS)
    found = next((text for text in told if text), "")
    if found or tool_error.strip():
        return shortened(found or f"tool error: {tool_error}")
    return "no result" if confidence is None else f"confidence {confidence:.2f}"


def is_usable(value: JsonValue) -> bool:
    """Whether a value says anything: blanks, words for nothing and empty containers do not."""
    match value:
        case str():
            return value.strip().casefold() not in _EMPTY
        case list():
            return any(is_usable(item) for item in value)
        case dict():
            return any(is_usable(item) for item in value.values())
        case _:
            return value is not None


def shortened(text: str, limit: int = FINDING_CHARACTERS) -> str:
    """One line of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _told(value: JsonValue) -> str:
    if not is_usable(value):
        return ""
    match value:
        case list():
            return _counted(value)
        case dict():
            return "; ".join(
                f"{key}: {text}" for key, item in value.items() if (text := _told(item))
            )
        case _:
            return str(value)


def _counted(items: list[JsonValue]) -> str:
    """The first usable text of a list, and how many there are."""
    usable = [item for item in items if is_usable(item)]
    first = _told(usable[0])
    return first if len(usable) == 1 else f"{len(usable)} items: {first}"
