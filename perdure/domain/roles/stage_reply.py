"""Reads a stage's text: a structured reply inside it, and whether it says that it cannot go on."""

import re
from dataclasses import dataclass
from typing import Literal

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.json_extraction import Found
from perdure.domain.llm.structured_replies import BadReply, Fields, find_reply, flaw, objects_with

_FRAME = "` \t\r\n{}[]"


@dataclass(frozen=True, slots=True)
class EmbeddedObject:
    """An object and the text before and after it."""

    fields: Fields
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


def embedded(text: str, found: Found) -> EmbeddedObject:
    """An object of a text with what stands around it."""
    return EmbeddedObject(found.fields, before=text[: found.start], after=text[found.end :])


def find_embedded(text: str, *names: str) -> EmbeddedObject | BadReply | None:
    """The one object in a text that has one of these fields; None without any."""
    found = find_reply(text, *names)
    return embedded(text, found) if isinstance(found, Found) else found


FIRST_LINES = 5
_QUESTION_CHARACTERS = 2_000
_MARKS = re.compile(r"^[\s#>*_`\-+•\"'⚠️🚫⛔❓]+")
_LINE = re.compile(
    r"(?:(?:status|state|result|outcome)\W{1,6})?(?P<word>blocked|needs[ _-]context)"
    r"(?:[\s*_`\"']*(?:$|[.!:;—–-]))(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)

_OBJECT = re.compile(r"\s*(?:```(?:json)?\s*)?\{")
_NONE = re.compile(r"\s*(?:no|none|nothing|false|n/a|nein|-)\s*[.!]?\s*", re.IGNORECASE)

SignalKind = Literal["blocked", "needs_context"]


class StageSignal(FrozenModel):
    """A stage stands still: it is blocked, or wants to know something."""

    kind: SignalKind
    question: str


def read_signal(text: str) -> StageSignal | None:
    """The signal in a stage's reply, or None when it went on as asked.

    Structured: the reply begins with an object that has `status` of that word, and `question` or
    `reason`. In text: one of the first five lines with content begins with the word, alone or
    before a colon or dash.
    """
    return _structured(text) or _in_lines(text)


def _structured(text: str) -> StageSignal | None:
    # An object further on is what the stage made, such as an example of a reply.
    first = _OBJECT.match(text)
    begins = [one for one in objects_with(text, "status") if first and one.start < first.end()]
    if not begins or flaw(begins[0]):
        return None
    found = embedded(text, begins[0])
    kind = _kind(str(found.fields.get("status", "")))
    if kind is None:
        return None
    said = (found.fields.get(name) for name in ("question", "reason", "needs", "message"))
    words = next((value for value in said if isinstance(value, str) and value.strip()), "")
    return StageSignal(kind=kind, question=_bounded(words or found.around))


def _in_lines(text: str) -> StageSignal | None:
    lines = text.splitlines()
    first = [number for number, line in enumerate(lines) if line.strip()][:FIRST_LINES]
    for number in first:
        found = _LINE.match(_MARKS.sub("", lines[number]))
        if found is None or _NONE.fullmatch(found["rest"]):
            continue
        kind = _kind(found["word"])
        rest = "\n".join([found["rest"], *lines[number + 1 :]])
        return StageSignal(kind=kind, question=_bounded(rest)) if kind else None
    return None


def _kind(word: str) -> SignalKind | None:
    match word.strip().casefold().replace(" ", "_").replace("-", "_"):
        case "blocked":
            return "blocked"
        case "needs_context":
            return "needs_context"
        case _:
            return None


def _bounded(text: str) -> str:
    bare = text.strip().strip("*_` ").strip()
    return bare if len(bare) <= _QUESTION_CHARACTERS else bare[: _QUESTION_CHARACTERS - 1] + "…"
