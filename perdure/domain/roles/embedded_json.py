"""Finds the JSON object that a reply carries, between fences or words as well."""

from dataclasses import dataclass

from pydantic import JsonValue

from perdure.domain.strict_json import strict_decoder

_LAST = 3
_DECODER = strict_decoder()
_BRACES = 24
_FRAME = "` \t\r\n{}[]"


@dataclass(frozen=True, slots=True)
class EmbeddedObject:
    """An object and the text before and after it."""

    fields: dict[str, JsonValue]
    before: str
    after: str

    @property
    def around(self) -> str:
        """The text without the object."""
        return f"{self.before}\n{self.after}"

    @property
    def concludes(self) -> bool:
        """Whether the reply ends with it or begins with it, fences and brackets aside."""
        return not self.after.strip(_FRAME) or not self.before.strip(_FRAME).removesuffix("json")


def find_object(text: str, *names: str) -> EmbeddedObject | None:
    """The last object in a text that has one of these fields; None without one.

    It looks behind a bounded number of braces, so the time is linear in the text.
    """
    for start in _candidates(text, names):
        found = _object_at(text, start)
        if found is not None and any(name in found.fields for name in names):
            return found
    return None


def _candidates(text: str, names: tuple[str, ...]) -> list[int]:
    """Where an object with such a field may begin, the last field and the nearest brace first."""
    starts: dict[int, None] = {}
    for name in names:
        end = len(text)
        for _ in range(_LAST):
            end = text.rfind(f'"{name}"', 0, end)
            if end < 0:
                break
            at = end
            for _ in range(_BRACES):
                at = text.rfind("{", 0, at)
                if at < 0:
                    break
                starts[at] = None
    return list(starts)


def _object_at(text: str, start: int) -> EmbeddedObject | None:
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    fields: dict[str, JsonValue] = value
    return EmbeddedObject(fields=fields, before=text[:start], after=text[end:])
