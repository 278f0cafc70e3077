"""Maps the fields of a model's reply to those of a decision.

Unknown fields are ignored, and known synonyms are renamed. Nothing is invented: a missing field
stays missing, and the decision is refused with its name.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import assert_never

from pydantic import JsonValue

from perdure.domain.delegation.confidence import read_sureness
from perdure.domain.delegation.decisions import DECISION_NAMES, MOST_HYPOTHESES, DecisionName
from perdure.domain.foundation.json_extraction import value_of
from perdure.domain.foundation.plain_text import is_blank
from perdure.domain.foundation.problems import format_value

# In the order in which they are looked for: "final plan" completes, "plan to delegate" delegates.
_STEMS: tuple[tuple[DecisionName, re.Pattern[str]], ...] = (
    ("delegate", re.compile(r"(?<!not )(?<!never )\b(?:re-?)?(?:delegat|assign)")),
    # “Not done, plan again” must not complete the run.
    ("complete", re.compile(r"(?<!not )(?<!never )\b(?:complet|done\b|finish|final)")),
    ("plan", re.compile(r"(?<!not )(?<!never )\b(?:re-?)?plan(?:s\b|n|\b)")),
    ("diagnose", re.compile(r"(?<!not )(?<!never )\b(?:diagnos|hypothes)")),
    ("fail", re.compile(r"(?<!not )(?<!never )\b(?:fail|impossib|give up|giving up)")),
    ("escalate", re.compile(r"(?<!not )(?<!never )\b(?:escalat|ask)")),
)
_BY_NAME: Mapping[str, DecisionName] = {name: name for name in DECISION_NAMES}
_LABEL = re.compile(r"^\W{0,4}(?:my\s+)?decision\W{1,4}(?P<said>[^\n]{1,60})$", re.I | re.M)
_OPENING = re.compile(r"\A\W{0,4}(?P<said>[a-z-]{4,20})\W{0,3}(?::|\n|\Z)", re.I)

_LISTS: tuple[tuple[str, DecisionName], ...] = (
    ("subtasks", "plan"),
    ("hypotheses", "diagnose"),
    ("delegations", "delegate"),
)
RESULTS = ("final_result", "final_report", "report", "summary")


def decision_named(words: str) -> DecisionName | None:
    """The decision that words mean, by stems and synonyms; None if they mean none."""
    said = " ".join(words.casefold().replace("_", " ").split())
    if said in _BY_NAME:
        return _BY_NAME[said]
    return next((name for name, stem in _STEMS if stem.search(said)), None)


def decision_inferred(fields: Mapping[str, JsonValue]) -> DecisionName | None:
    """The decision that an object without a decision field means, by what it holds."""
    for key, name in _LISTS:
        if fields.get(key):
            return name
    return "complete" if any(fields.get(key) for key in RESULTS) else None


def decision_in_words(text: str) -> tuple[DecisionName, str] | None:
    """The decision that a text without JSON names, and the rest of the text.

    Only a line "Decision: ..." or an opening word counts: a text that merely mentions a plan
    decides nothing.
    """
    found = _LABEL.search(text) or _OPENING.search(text)
    name = decision_named(found["said"]) if found else None
    if found is None or name is None:
        return None
    rest = f"{text[: found.start()]}{text[found.end() :]}"
    return name, rest.strip()


Given = Mapping[str, JsonValue]
Fields = dict[str, JsonValue]

_REASONS = ("reason", "rationale", "reasoning", "explanation", "thought")
_WORKER = ("worker", "worker_id", "agent", "id", "name")
_INSTRUCTIONS = ("instructions", "instruction", "task", "prompt", "description")
_TITLE = ("title", "description", "task", "goal", "name")
_ACCEPTANCE = ("acceptance", "acceptance_criteria", "done_when")
_DEPENDS = ("depends_on", "dependencies", "depends")
_TELLING = (
    *("markdown", "content", "path", "name", "id"),
    *("subtask_id", "subtask", "label", "title", "text", "value"),
)


def fields_of_decision(name: DecisionName, given: Given, *, cut: bool = False) -> Fields:
    """The fields of a decision as its model takes them; `cut`: unfinished last items are left out.

    More hypotheses than are tested at once are left out, the first ones kept.
    """
    fields: Fields = {"reason": _text(given, _REASONS)}
    match name:
        case "delegate":
            items = _items(given, ("delegations", "workers", "assignments", "envelopes"))
            fields["delegations"] = _listed(items, _envelope, needs="instructions", cut=cut)
        case "plan":
            items = _items(given, ("subtasks", "tasks", "plan", "steps"))
            fields["subtasks"] = _listed(items, _subtask, needs="title", cut=cut)
        case "diagnose":
            items = _items(given, ("hypotheses",))
            found = _listed(items, _hypothesis, needs="test", cut=cut)
            fields["hypotheses"] = found[:MOST_HYPOTHESES]
        case "complete":
            fields |= _completion(given)
        case "escalate":
            fields["question"] = _text(given, ("question", "message", *_REASONS))
            fields["choices"] = _texts(given, ("choices", "options"))
        case "fail":
            fields["why"] = _text(given, ("why", "cause", *_REASONS))
        case _:
            assert_never(name)
    return fields


def _completion(given: Given) -> Fields:
    said = _first(given, (*RESULTS, "result", "answer", "output"))
    fields: Fields = {
        "final_result": value_of(said) if isinstance(said, str) else said,
        "deliverables": _texts(given, ("deliverables", "artifacts", "files")),
    }
    sure = read_sureness(given.get("confidence"))
    # Kept as text, it fails validation as a number: the manager is told why, and asked again.
    fields["confidence"] = format_value(given.get("confidence")) if sure.problem else sure.value
    return fields


def _envelope(item: JsonValue, number: int) -> Fields:
    given = item if isinstance(item, dict) else {"instructions": item}
    fields: Fields = {
        "worker": _text(given, _WORKER) or f"w{number}",
        "instructions": _text(given, _INSTRUCTIONS),
        "subtask": _text(given, ("subtask", "subtask_id")) or None,
        "expected": _text(given, ("expected", "expected_output")),
        "acceptance": _text(given, _ACCEPTANCE),
        "inputs": _named(given.get("inputs")),
        "tools": _texts(given, ("tools", "tools_requested")),
        "skills": _texts(given, ("skills",)),
        "inherit": _texts(given, ("inherit", "state_inherit")),
        "model": _text(given, ("model",)) or None,
        "result_schema": _schema(_first(given, ("result_schema", "schema", "output_schema"))),
        "budget_share": _number(_first(given, ("budget_share", "budget_fraction"))),
        "sub_manager": _flag(given),
    }
    temperature = _number(given.get("temperature"))
    priority = _text(given, ("priority",)).casefold()
    # Left out instead of None, so that the default of the model counts.
    fields |= {} if temperature is None else {"temperature": temperature}
    fields |= {"priority": priority} if priority in {"low", "normal", "high"} else {}
    return fields


def _subtask(item: JsonValue, number: int) -> Fields:
    given = item if isinstance(item, dict) else {"title": item}
    return {
        "id": _text(given, ("id", "subtask_id", "subtask")) or f"s{number}",
        "title": _text(given, _TITLE),
        "depends_on": _texts(given, _DEPENDS),
        "acceptance": _text(given, _ACCEPTANCE),
    }


def _hypothesis(item: JsonValue, number: int) -> Fields:
    given = item if isinstance(item, dict) else {"statement": item}
    return {
        "id": _text(given, ("id",)) or f"h{number}",
        "statement": _text(given, ("statement", "hypothesis", "title", "description")),
        "test": _text(given, ("test", "check", "instructions")),
    }


def _listed(
    items: Sequence[JsonValue], reads: Callable[[JsonValue, int], Fields], *, needs: str, cut: bool
) -> list[JsonValue]:
    read = [reads(item, number) for number, item in enumerate(items, start=1)]
    # Only the last item can be cut off. Where one further up lacks the field, the manager is told.
    if cut and read and not read[-1][needs]:
        read.pop()
    return [*read]


def _items(given: Given, keys: Sequence[str]) -> list[JsonValue]:
    found = _first(given, keys)
    if isinstance(found, list):
        return found
    return [] if found is None else [found]


def _first(given: Given, keys: Sequence[str]) -> JsonValue:
    """The first of some fields that holds anything."""
    # Not by their truth: 0 and false are values.
    filled = (given[key] for key in keys if given.get(key) not in (None, "", [], {}))
    return next(filled, None)


def _text(given: Given, keys: Sequence[str]) -> str:
    """What the first filled one of some fields says; empty where people would see nothing of it."""
    said = _as_words(_first(given, keys))
    # A rule or a hidden sign tells nobody anything, and no run could start with it as its task.
    return "" if is_blank(said) else said


def _as_words(found: JsonValue) -> str:
    match found:
        case str():
            return found.strip()
        case bool() | None | dict():
            return ""
        case list():
            return "; ".join(str(item).strip() for item in found if isinstance(item, str))
        case _:
            return str(found)


def _texts(given: Given, keys: Sequence[str]) -> list[JsonValue]:
    """A list of texts; an object in it stands for its name, path, Markdown, id or label."""
    found = _first(given, keys)
    items = found if isinstance(found, list) else [found]
    texts = (_text(item, _TELLING) if isinstance(item, dict) else item for item in items)
    # Numbers too, as in ids: a dependency that is dropped lets work begin before its time.
    return [
        str(text).strip() for text in texts if isinstance(text, str | int | float) and str(text)
    ]


def _named(found: JsonValue) -> JsonValue:
    """Inputs as an object; a list of `{name, value}` is one too, a text is called "input"."""
    match found:
        case dict():
            return found
        case list():
            pairs = [item for item in found if isinstance(item, dict) and item.get("name")]
            return {str(item["name"]): item.get("value") for item in pairs}
        case None | "":
            return {}
        case _:
            return {"input": found}


def _schema(found: JsonValue) -> JsonValue:
    value = value_of(found) if isinstance(found, str) else found
    return value if isinstance(value, dict) and value else None


def _number(found: JsonValue) -> float | None:
    # True is an int.
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(found) if isfinite(found) else None


def _flag(given: Given) -> bool | None:
    """Whether a worker is to manage; words count, silence leaves it to the complexity score."""
    match given.get("sub_manager", given.get("role")):
        case bool() as said:
            return said
        case "sub_manager" | "manager" | "true" | "yes":
            return True
        case "worker" | "false" | "no":
            return False
        case _:
            return None
