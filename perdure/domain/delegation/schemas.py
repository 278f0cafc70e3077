"""JSON schemas of what managers, workers and critics reply.

They keep to what structured output of the Messages API takes: every object is closed and names its
fields, nothing is recursive. What is free in form travels as text that holds JSON.
"""

from collections.abc import Mapping

from pydantic import JsonValue

from perdure.domain.delegation.decisions import DECISION_NAMES, PRIORITIES
from perdure.domain.delegation.worker_review import CATEGORIES

Schema = dict[str, JsonValue]

_ALWAYS = frozenset({"decision", "reason"})
_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_FLAG: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}

_OPTIONAL = (
    "subtask",
    "inherit",
    "budget_share",
    "sub_manager",
    "result_schema",
    "model",
    "temperature",
    "priority",
)
_ENVELOPE = {
    "worker": "A short name; the same name goes on with the same line of work.",
    "subtask": "The id of the subtask of the plan that this works on.",
    "instructions": "All that is to be done; the worker sees nothing else of the task.",
    "expected": "What the result should be, in words.",
    "acceptance": "What a reviewer measures the result by; left empty, the subtask's.",
    "inputs": "Facts that it needs, shown to it as data.",
    "tools": "Names from the tools that workers may ask for; none means all of them.",
    "skills": "Names of known skills, or a new procedure as Markdown of several lines.",
    "inherit": "Names of inputs of the task that are handed on whole, also where you see a part.",
    "budget_share": "Its part of what is left of the budget, from 0 to 1; left out, a fair part.",
    "sub_manager": (
        "true: it gets workers of its own and splits the work further; false: never; left out, as "
        "the plan's complexity says. Only for work that is several tasks by itself."
    ),
    "result_schema": "A JSON schema, as text, that `result` must fit.",
    "model": "Who does it: a model that the task names; left out, the worker model.",
    "temperature": "From 0 to 2; ignored where the model takes none.",
    "priority": "How much depends on it.",
}
_DECISION = {
    "decision": "What happens next; it says which of the other fields count.",
    "reason": "Why, in a sentence; people read it.",
    "delegations": "delegate: the pieces of work that workers do at the same time.",
    "subtasks": "plan: at most 10 subtasks, each with what it waits for.",
    "hypotheses": "diagnose: up to three guesses at why work is stuck.",
    "final_result": "complete: the result whole, as it is handed over.",
    "confidence": "complete: how sure you are of it, from 0 to 1.",
    "deliverables": "complete: paths of the files to hand over.",
    "question": "escalate: what only a person can decide.",
    "choices": "escalate: answers to offer; none called accept or stop.",
    "why": "fail: why the task cannot be done.",
}
_SUBTASK = {
    "id": "A short name; delegations and other subtasks name it.",
    "title": "What is to be done.",
    "depends_on": "Ids of subtasks that must be done before.",
    "acceptance": "What shows that it is done; a reviewer measures the work by it.",
}
_HYPOTHESIS = {
    "id": "A short name.",
    "statement": "What may be the cause.",
    "test": "How one worker can find out at little cost.",
}
_INPUT = {"name": "What it is called.", "value": "The fact itself."}


def decision_schema() -> Schema:
    """One flat object: `decision` says which of its other fields count.

    A union at the root would say it more exactly, but tool schemas, which some providers make of
    it, must be objects there.
    """
    fields: dict[str, Schema] = {
        "decision": {"enum": list(DECISION_NAMES)},
        "reason": _TEXT,
        "delegations": _list(_envelope()),
        "subtasks": _list(
            _told(
                _SUBTASK, {"id": _TEXT, "title": _TEXT, "depends_on": _TEXTS, "acceptance": _TEXT}
            )
        ),
        "hypotheses": _list(_told(_HYPOTHESIS, {"id": _TEXT, "statement": _TEXT, "test": _TEXT})),
        "final_result": _TEXT,
        "confidence": _NUMBER,
        "deliverables": _TEXTS,
        "question": _TEXT,
        "choices": _TEXTS,
        "why": _TEXT,
    }
    optional = tuple(name for name in fields if name not in _ALWAYS)
    return _told(_DECISION, fields, optional=optional)


def critique_schema() -> Schema:
    """A reviewer's score, with defects by category."""
    categories: Schema = {"enum": list(CATEGORIES)}
    defect = _object({"category": categories, "title": _TEXT, "fix": _TEXT, "critical": _FLAG})
    return _object({"score": _NUMBER, "defects": _list(defect)})


def criteria_schema() -> Schema:
    """Which success criteria are met, each with what is missing."""
    item = _object({"number": {"type": "integer"}, "met": _FLAG, "missing": _TEXT})
    return _object({"criteria": _list(item)})


def _envelope() -> Schema:
    named = _told(_INPUT, {"name": _TEXT, "value": _TEXT})
    fields: dict[str, Schema] = {
        "worker": _TEXT,
        "subtask": _TEXT,
        "instructions": _TEXT,
        "expected": _TEXT,
        "acceptance": _TEXT,
        "inputs": _list(named),
        "tools": _TEXTS,
        "skills": _TEXTS,
        "inherit": _TEXTS,
        "budget_share": _NUMBER,
        "sub_manager": _FLAG,
        "result_schema": _TEXT,
        "model": _TEXT,
        "temperature": _NUMBER,
        "priority": {"enum": list(PRIORITIES)},
    }
    return _told(_ENVELOPE, fields, optional=_OPTIONAL)


def _told(
    words: Mapping[str, str], fields: Mapping[str, Schema], *, optional: tuple[str, ...] = ()
) -> Schema:
    """An object whose fields say what they are for."""
    told: Schema = {name: {**field, "description": words[name]} for name, field in fields.items()}
    return _object(told, optional=optional)


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(properties: Schema, *, optional: tuple[str, ...] = ()) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
