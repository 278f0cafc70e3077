"""What a dimension demands, in words for the writing model, so that it knows all criteria."""

import json
from collections.abc import Iterable
from typing import assert_never

from pydantic import JsonValue

from perdure.domain.evaluation.checks import (
    Check,
    ContainsCheck,
    EqualsCheck,
    JsonSchemaCheck,
    LengthCheck,
    PluginCheck,
    PythonCheck,
    RegexCheck,
)
from perdure.domain.evaluation.evaluators import HumanEvaluator, JudgeEvaluator
from perdure.domain.evaluation.program_checks import CommandCheck, LintCheck, TestsCheck
from perdure.domain.evaluation.rubric import Dimension

# A schema or a pattern may be long, and stands in every prompt.
MOST_CHARACTERS = 4_000
_UNITS = {"chars": "characters"}


def demand(dimension: Dimension) -> str:
    """The demand of one dimension; empty if it is secret or has no words.

    A hint is the author's own wording and stands alone. A description says why, the check's
    parameters say what.
    """
    # Everything else is told, even the text of an `equals` check: who wants a test marks it secret.
    if dimension.secret:
        return ""
    if dimension.hint:
        return dimension.hint
    what = _in_words(dimension)
    why = dimension.description.strip()
    if why and what:
        return f"{why.rstrip('.:')}: {what}."
    return why or (f"{dimension.name}: {what}." if what else "")


def hints(dimensions: Iterable[Dimension]) -> str:
    """The demands of several dimensions as one text; one without words is called by its name."""
    said = (demand(item) or item.name for item in dimensions if not item.secret)
    return " ".join(said)


def _in_words(dimension: Dimension) -> str:
    check = dimension.evaluator
    match check:
        case JudgeEvaluator():
            return ""
        case HumanEvaluator():
            return f"a person is asked: {dimension.question}" if dimension.question else ""
        case CommandCheck():
            return f"`{_line(check.argv)}` ends with exit code 0"
        case TestsCheck():
            return f"all tests pass{_run_by(check.command)}"
        case LintCheck():
            return f"the linter finds nothing{_run_by(check.command)}"
        case _:
            return _of_text(check)


def _of_text(check: Check) -> str:
    match check:
        case ContainsCheck():
            return _contains(check)
        case RegexCheck():
            return _regex(check)
        case LengthCheck():
            return _length(check)
        case JsonSchemaCheck():
            return f"it is JSON that satisfies the schema {_json(check.schema_)}"
        case EqualsCheck():
            return f"it is exactly {_json(check.value)}"
        case PythonCheck():
            return f"this Python holds of the text `output`: {_short(check.code.strip())}"
        case PluginCheck():
            given = f" with {_json(check.parameters)}" if check.parameters else ""
            return f"it passes the check {check.check}{given}"
        case _:
            assert_never(check)


def _contains(check: ContainsCheck) -> str:
    parts = [f"it contains {_listed(check.all, 'and')}"] if check.all else []
    if check.any:
        one_of = "one of " if len(check.any) > 1 else ""
        parts.append(f"it contains {one_of}{_listed(check.any, 'or')}")
    if check.none:
        parts.append(f"it does not contain {_listed(check.none, 'or')}")
    case = "" if check.ignore_case else " (capitals count)"
    return f"{'; '.join(parts)}{case}"


def _regex(check: RegexCheck) -> str:
    pattern = _short(check.pattern)
    if check.count == 0:
        return f"nothing in it matches the pattern `{pattern}`"
    times = "" if check.count == 1 else f" at least {check.count} times"
    return f"it matches the pattern `{pattern}`{times}"


def _length(check: LengthCheck) -> str:
    unit = _UNITS.get(check.unit, check.unit)
    if check.min is None or check.max is None:
        bound = f"at least {check.min}" if check.max is None else f"at most {check.max}"
        return f"it has {bound} {unit}"
    if check.min == check.max:
        return f"it has exactly {check.min} {unit}"
    return f"it has {check.min} to {check.max} {unit}"


def _listed(terms: tuple[str, ...], last: str) -> str:
    quoted = [json.dumps(term, ensure_ascii=False) for term in terms]
    if len(quoted) == 1:
        return quoted[0]
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


def _run_by(command: tuple[str, ...] | None) -> str:
    return f" (`{_line(command)}`)" if command else ""


def _line(argv: tuple[str, ...]) -> str:
    return _short(" ".join(argv))


def _json(value: JsonValue) -> str:
    return _short(json.dumps(value, ensure_ascii=False))


def _short(text: str) -> str:
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]} [… {len(text) - MOST_CHARACTERS} characters left out]"
