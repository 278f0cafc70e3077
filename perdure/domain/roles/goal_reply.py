"""Reads a goal judge's reply; anything but a plain yes is not achieved."""

import re

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.structured_replies import BadReply, shaped
from perdure.domain.roles.stage_reply import find_embedded
from perdure.domain.roles.verdict_words import (
    ATTRIBUTION,
    CONDITION,
    DEMAND,
    NEGATION,
    UNSURE,
    Clause,
    clauses,
)

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
    rationale: str = ""


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
    is_contradicted = given.achieved and (is_denied or not found.concludes)
    rationale = given.rationale or _reason(found.around)
    return GoalVerdict(
        achieved=given.achieved and not is_contradicted,
        rationale=rationale.strip()[:_RATIONALE_CHARACTERS],
        clear=not is_contradicted,
        problems=(_CONTRADICTED,) if is_contradicted else (),
    )


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
