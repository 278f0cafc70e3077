"""Reads a manager's decision from its reply, in whatever shape it comes.

If the reply is unreadable, the manager is asked again with the problems that are returned here.
"""

from collections.abc import Mapping

from pydantic import JsonValue, ValidationError

from perdure.domain.delegation.decisions import (
    DECISION_NAMES,
    MANAGER_DECISION,
    DecisionName,
    Escalate,
    ManagerDecision,
    choice_problems,
)
from perdure.domain.delegation.normalize_decision import (
    decision_in_words,
    decision_inferred,
    decision_named,
    fields_of_decision,
)
from perdure.domain.foundation.json_extraction import Found, objects_in
from perdure.domain.foundation.problems import format_value, problems_of
from perdure.domain.llm.structured_replies import BadReply

# In a row: a manager that misses the format this often will not learn it.
MOST_UNREADABLE = 5
MOST_PROBLEMS = 8
_OTHER_FIELDS = ("decision_type", "action", "type")
_NAMES = ", ".join(DECISION_NAMES)


def read_decision(text: str) -> ManagerDecision | BadReply:
    """The decision in a reply, or every problem with it."""
    found = objects_in(text)
    if not found:
        return _in_words(text)
    first: BadReply | None = None
    for item in found:
        read = _from_object(item)
        if not isinstance(read, BadReply):
            return read
        first = first or read
    return first or BadReply((_no_decision(),))


def _from_object(found: Found) -> ManagerDecision | BadReply:
    fields = _unwrapped(found.fields)
    name = _name_of(fields)
    if isinstance(name, BadReply):
        return name
    given = fields_of_decision(name, fields, cut=found.cut)
    # A value that breaks off is left out. Without this check the run would complete with nothing.
    if found.cut and name == "complete" and given["final_result"] is None:
        return BadReply(("final_result: the reply was cut off before its end; make it shorter.",))
    try:
        decision = MANAGER_DECISION.validate_python({"decision": name, **given})
    except ValidationError as error:
        told = tuple(str(problem) for problem in problems_of(error, given))
        return BadReply(told[:MOST_PROBLEMS])
    # Not in the model: recorded decisions are read by it.
    wrong = choice_problems(decision.choices) if isinstance(decision, Escalate) else ()
    return BadReply(wrong[:MOST_PROBLEMS]) if wrong else decision


def _name_of(fields: Mapping[str, JsonValue]) -> DecisionName | BadReply:
    """A field that names the decision outranks what the other fields look like."""
    said = fields.get("decision")
    if isinstance(said, str) and said.strip():
        # An unknown word is asked about, even if other fields look like a decision.
        name = decision_named(said)
        return name or BadReply(
            (f"decision: found {format_value(said)}; allowed: one of {_NAMES}.",)
        )
    for key in _OTHER_FIELDS:
        value = fields.get(key)
        # A word that names no decision is passed over: `type` may mean anything.
        name = decision_named(value) if isinstance(value, str) else None
        if name is not None:
            return name
    return decision_inferred(fields) or BadReply((_no_decision(),))


def _unwrapped(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """`{"decision": {"type": "plan", ...}}` is read like its inner object."""
    inner = fields.get("decision")
    if not isinstance(inner, dict):
        return fields
    outer = {key: value for key, value in fields.items() if key != "decision"}
    return {**outer, **inner}


def _in_words(text: str) -> ManagerDecision | BadReply:
    said = decision_in_words(text)
    if said is None:
        return BadReply((f"The reply holds no JSON object with a decision ({_NAMES}).",))
    name, rest = said
    match name:
        case "complete":
            return _from_object(Found({"decision": name, "final_result": rest}))
        case "fail":
            return _from_object(Found({"decision": name, "why": rest}))
        case "escalate" if rest:
            return _from_object(Found({"decision": name, "question": rest}))
        case _:
            return BadReply((f"The reply says {name} in words; give it as a JSON object, whole.",))


def _no_decision() -> str:
    return f"decision: found nothing; allowed: one of {_NAMES}."
