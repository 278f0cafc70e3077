"""Reads a goal judge's reply; anything but a plain yes is not achieved."""

import re

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from perdure.domain.base import Frozen
from perdure.domain.roles.embedded_json import find_object
from perdure.domain.roles.review_clauses import Clause, clauses
from perdure.domain.roles.review_words import ATTRIBUTION, CONDITION, DEMAND, NEGATION, UNSURE

_RATIONALE_CHARACTERS = 2_000
_ACHIEVED = re.compile(
    r"^(?:(?:verdict|decision|result|status|conclusion|answer)\s*[:=-]\s*)?(?:yes[,:.]?\s+)?"
    r"(?:(?:the |this )?goal(?: (?:is|has been|was))?(?: (?:fully|completely|now))?\s*[:=]?\s*)?"
    r"(?:achieved|goal_achieved)\s*(?:$|[.!,;:-])"
)
_WORD = re.compile(r"achieved|goal_achieved")


class GoalVerdict(Frozen):
    """Whether the goal is achieved, and why; `clear` says that the reply could be read."""

    achieved: bool
    rationale: str = ""
    clear: bool = True


class _Given(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    achieved: bool = Field(strict=True)
    rationale: str = ""


def read_goal(text: str) -> GoalVerdict:
    """The judge's verdict: structured, or `ACHIEVED` and `NOT_ACHIEVED` in plain text."""
    found = find_object(text, "achieved")
    if found is None:
        return _from_text(text)
    try:
        given = _Given.model_validate(found.fields)
    except ValidationError:
        return GoalVerdict(achieved=False, clear=False)
    around = _from_text(found.around)
    is_denied = around.clear and not around.achieved
    is_contradicted = given.achieved and (is_denied or not found.concludes)
    return GoalVerdict(
        achieved=given.achieved and not is_contradicted,
        rationale=given.rationale.strip()[:_RATIONALE_CHARACTERS],
        clear=not is_contradicted,
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
    if not said:
        return GoalVerdict(achieved=False, clear=False)
    stated = [_is_statement(clause) for clause in said]
    denied = any(NEGATION.search(clause.text) for clause in said)
    demands = any(DEMAND.search(clause.text) for clause in clauses(text))
    achieved = all(stated) and not demands
    return GoalVerdict(achieved=achieved, clear=achieved or denied)


def _is_statement(clause: Clause) -> bool:
    words = clause.text
    is_hedged = CONDITION.search(words) or NEGATION.search(words) or UNSURE.search(words)
    is_told = ATTRIBUTION.search(words.split("achieved")[0])
    if clause.is_question or not clause.is_own or is_hedged or is_told:
        return False
    return _ACHIEVED.match(words) is not None
