"""Reads a stage's text: a reply inside it, whether it is blocked; and a goal judge's reply."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.json_extraction import Found
from perdure.domain.foundation.plain_text import clipped
from perdure.domain.llm.structured_replies import (
    BadReply,
    Fields,
    denials,
    find_reply,
    flaw,
    objects_with,
    shaped,
    unexpected_fields,
)
from perdure.domain.roles.review_reply_words import (
    ATTRIBUTION,
    CONDITION,
    DEMAND,
    NEGATION,
    UNSURE,
    Clause,
    clauses,
)

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
    def ends_reply(self) -> bool:
        """Whether nothing follows it, fences and brackets aside."""
        return not self.after.strip(_FRAME)

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


# Further down, a text may speak of something else that is blocked.
FIRST_LINES = 5
_QUESTION_CHARACTERS = 2_000
_MARKS = re.compile(r"^[\s#>*_`\-+•\"'⚠️🚫⛔❓]+")
_LINE = re.compile(
    r"(?:(?:status|state|result|outcome)\W{1,6})?(?P<word>blocked|needs[ _-]context)"
    r"(?:[\s*_`\"']*(?:$|[.!:;—–-]))(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
# Stages are told to begin with the bare word and what they ask, and their prompt names no mark to
# part the two. Further down, or in small letters, a sentence may begin so.
_TOLD = re.compile(r"(?P<word>BLOCKED|NEEDS_CONTEXT)[*_`\"']*\s+(?P<rest>\S.*)", re.DOTALL)
_OBJECT = re.compile(r"\s*(?:```(?:json)?\s*)?\{")
_NONE = re.compile(r"\s*(?:no|none|nothing|false|n/a|nein|-)\s*[.!]?\s*", re.IGNORECASE)

SignalKind = Literal["blocked", "needs_context"]


class StageSignal(FrozenModel):
    """A stage cannot go on: it is blocked, or asks a question."""

    kind: SignalKind
    question: str


def read_signal(text: str) -> StageSignal | None:
    """The signal in a stage's reply, or None when it went on as asked.

    Structured: the reply begins with an object that has `status` of that word, and `question` or
    `reason`. In text: one of the first five lines with content begins with the word, alone or
    before a colon or dash; the first one also with the word in capitals before any other words.
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
        line = _MARKS.sub("", lines[number])
        found = _LINE.match(line) or (_as_told(line) if number == first[0] else None)
        # “Blocked: no” is a line of a report.
        if found is None or _NONE.fullmatch(found["rest"]):
            continue
        kind = _kind(found["word"])
        rest = "\n".join([found["rest"], *lines[number + 1 :]])
        return StageSignal(kind=kind, question=_bounded(rest)) if kind else None
    return None


def _as_told(line: str) -> re.Match[str] | None:
    found = _TOLD.match(line)
    # “BLOCKED USERS” is a heading.
    return None if found is None or found["rest"].isupper() else found


def _kind(word: str) -> SignalKind | None:
    match word.strip().casefold().replace(" ", "_").replace("-", "_"):
        case "blocked":
            return "blocked"
        case "needs_context":
            return "needs_context"
        case _:
            return None


def _bounded(text: str) -> str:
    return clipped(text.strip().strip("*_` ").strip(), _QUESTION_CHARACTERS)


_RATIONALE_CHARACTERS = 2_000
_ACHIEVED = re.compile(
    r"^(?:(?:verdict|decision|result|status|conclusion|answer)\s*[:=-]\s*)?(?:yes[,:.]?\s+)?"
    r"(?:(?:the |this )?goal(?: (?:is|has been|was))?(?: (?:fully|completely|now))?\s*[:=]?\s*)?"
    r"(?:achieved|goal_achieved)\s*(?:$|[.!,;:-])"
)
_SILENT = "The reply does not say plainly whether the goal is achieved."
_CONTRADICTED = "The words around the structured verdict speak against it, or go on after it."
_WORD = re.compile(r"achieved|goal_achieved")
_BARE = re.compile(
    r"^\W*(?:(?:verdict|decision|result|status|goal)\W+)?(?:not[ _]|goal[ _])?achieved\b"
    r"[\s*_.:;,–—-]*",
    re.IGNORECASE,
)


class GoalVerdict(FrozenModel):
    """Whether the goal is achieved, and why, in the judge's words.

    `clear` says that the reply could be read, and `problems` what could not.
    """

    achieved: bool
    rationale: str = ""
    clear: bool = True
    problems: tuple[str, ...] = ()


class _Given(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    achieved: bool = Field(strict=True)
    rationale: str = Field(
        default="",
        validation_alias=AliasChoices("rationale", "reason", "reasoning", "why", "explanation"),
    )


_KNOWN = ("achieved", "rationale", "reason", "reasoning", "why", "explanation")


def read_goal(text: str) -> GoalVerdict:
    """The judge's verdict: structured, or `ACHIEVED` and `NOT_ACHIEVED` in plain text."""
    found = find_embedded(text, "achieved")
    if found is None:
        return _from_text(text)
    if isinstance(found, BadReply):
        return _unclear(*found.problems)
    given = shaped(found.fields, _Given)
    if isinstance(given, BadReply):
        return _unclear(*given.problems)
    around = _from_text(found.around)
    is_denied = around.clear and not around.achieved
    open_fields = [*unexpected_fields(found.fields, _KNOWN), *denials(found.fields, _KNOWN)]
    # Only a yes is doubted: a wrong no costs a round, a wrong yes the goal.
    is_contradicted = given.achieved and (is_denied or not found.concludes or bool(open_fields))
    rationale = given.rationale or _reason(found.around)
    return GoalVerdict(
        achieved=given.achieved and not is_contradicted,
        rationale=rationale.strip()[:_RATIONALE_CHARACTERS],
        clear=not is_contradicted,
        problems=_contradictions(open_fields) if is_contradicted else (),
    )


def _contradictions(open_fields: Sequence[str]) -> tuple[str, ...]:
    if not open_fields:
        return (_CONTRADICTED,)
    named = ", ".join(dict.fromkeys(open_fields))
    return (f"The goal is called achieved, and beside it stands: {named}.",)


def goal_schema() -> dict[str, JsonValue]:
    """The JSON schema of a goal judge's reply."""
    return {
        "type": "object",
        "properties": {"achieved": {"type": "boolean"}, "rationale": {"type": "string"}},
        "required": ["achieved", "rationale"],
        "additionalProperties": False,
    }


def _from_text(text: str) -> GoalVerdict:
    """Every clause that speaks of achieving must say that it is so; one that does not decides."""
    said = [clause for clause in clauses(text.replace("_", " ")) if _WORD.search(clause.text)]
    reason = _reason(text)
    if not said:
        return GoalVerdict(achieved=False, rationale=reason, clear=False, problems=(_SILENT,))
    stated = [_is_statement(clause) for clause in said]
    denied = any(NEGATION.search(clause.text) for clause in said)
    demands = any(DEMAND.search(clause.text) for clause in clauses(text))
    achieved = all(stated) and not demands
    clear = achieved or denied
    problems = () if clear else (_SILENT,)
    return GoalVerdict(achieved=achieved, rationale=reason, clear=clear, problems=problems)


def _reason(text: str) -> str:
    """What a judge says beside the bare word of its verdict."""
    said = " ".join(text.split())
    return _BARE.sub("", said)[:_RATIONALE_CHARACTERS].strip()


def _unclear(*problems: str) -> GoalVerdict:
    told = f"The goal judge's reply could not be read: {' '.join(problems)}"
    told = told[:_RATIONALE_CHARACTERS]
    return GoalVerdict(achieved=False, rationale=told, clear=False, problems=problems)


def _is_statement(clause: Clause) -> bool:
    words = clause.text
    is_hedged = CONDITION.search(words) or NEGATION.search(words) or UNSURE.search(words)
    is_told = ATTRIBUTION.search(words.split("achieved")[0])
    if clause.is_question or not clause.is_own or is_hedged or is_told:
        return False
    return _ACHIEVED.match(words) is not None
