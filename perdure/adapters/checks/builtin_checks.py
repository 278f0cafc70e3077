"""Runs one built-in check on one text, and reads the value that a check returns."""

import json
import re
from decimal import Decimal
from typing import assert_never

from pydantic import JsonValue
from rapidfuzz.distance import Indel

from perdure.adapters.bounded_process.process import misfits_now
from perdure.adapters.checks.patterns import count_matches
from perdure.domain.evaluation.checks import (
    BuiltInCheck,
    ContainsCheck,
    EqualsCheck,
    JsonSchemaCheck,
    LengthCheck,
    LengthUnit,
    RegexCheck,
)
from perdure.domain.evaluation.trajectory import is_score
from perdure.domain.foundation.json_extraction import read_json
from perdure.extending.check_decorator import CheckFailed, CheckResult

__all__ = ["PASSED", "CheckFailed", "CheckResult", "result_of"]

PASSED = CheckResult(score=1.0)
ANSWER_CHARACTERS = 400
SHOWN_CHARACTERS = 120
_UNITS: dict[LengthUnit, tuple[str, str]] = {
    "chars": ("character", "characters"),
    "words": ("word", "words"),
    "lines": ("line", "lines"),
    "sentences": ("sentence", "sentences"),
}
# A sentence ends at a full stop or the like if space or the end follows, so 3.5 is one number.
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？]+")
_HAS_WORD = re.compile(r"\w")


def result_of(value: object) -> CheckResult:
    """Read a boolean, a score, or a score with an explanation.

    Raises:
        CheckFailed: the value is none of these, or the score is not between 0 and 1.
    """
    match value:
        case CheckResult():
            score, detail, fix = value.score, words_of(value.detail), words_of(value.fix)
        case (score, str() as detail):
            fix = ""
        case _:
            score, detail, fix = value, "", ""
    score = _plain(score)
    if not isinstance(score, bool | int | float) or not is_score(score):
        raise CheckFailed(
            f"the check gave {_named(value)}, which is no score.",
            cure="Return True, False, a number from 0 to 1, or such a number with words.",
        )
    said = detail or f"the check is not met (score {float(score):g})"
    return CheckResult(float(score), "" if score >= 1 else said[:ANSWER_CHARACTERS], fix)


def words_of(said: object) -> str:
    """What a check says in words; nothing where it says `None`."""
    return "" if said is None else str(said)


def _named(value: object) -> str:
    try:
        return repr(value)[:ANSWER_CHARACTERS]
    except ValueError:  # Python writes no number of thousands of digits
        return f"a huge {type(value).__name__}"


def _plain(score: object) -> object:
    """A score as Python has it; numpy, pandas and torch have scalars of their own."""
    item = getattr(score, "item", None)
    if isinstance(score, bool | int | float) or not callable(item):
        return float(score) if isinstance(score, Decimal) else score
    try:
        return item()
    except (TypeError, ValueError, RuntimeError):  # an array of several numbers
        return score


def length_of(text: str, unit: LengthUnit) -> int:
    """The length of `text`; a word has a letter or digit, and blank lines do not count."""
    match unit:
        case "chars":
            return len(text)
        case "words":
            return sum(1 for word in text.split() if _HAS_WORD.search(word))
        case "lines":
            return sum(1 for line in text.splitlines() if line.strip())
        case "sentences":
            return sum(1 for piece in _SENTENCE_END.split(text) if _HAS_WORD.search(piece))


def run_check(check: BuiltInCheck, text: str) -> CheckResult:
    """Score a text; raises `CheckFailed` if the check itself cannot run."""
    match check:
        case ContainsCheck():
            return _contains(check, text)
        case RegexCheck():
            return _regex(check, text)
        case LengthCheck():
            return _length(check, text)
        case JsonSchemaCheck():
            return _json_schema(check, text)
        case EqualsCheck():
            return _equals(check, text)
        case _:
            assert_never(check)


def _contains(check: ContainsCheck, text: str) -> CheckResult:
    hay = text.casefold() if check.ignore_case else text

    def occurs(term: str) -> bool:
        return (term.casefold() if check.ignore_case else term) in hay

    missing = [term for term in check.all if not occurs(term)]
    unwanted = [term for term in check.none if occurs(term)]
    lacks_any = bool(check.any) and not any(occurs(term) for term in check.any)
    # `any` is one demand, however many terms it has.
    demands = len(check.all) + len(check.none) + bool(check.any)
    unmet = len(missing) + len(unwanted) + lacks_any
    if unmet == 0:
        return PASSED
    found: list[str] = []
    fixes: list[str] = []
    if missing:
        found.append("missing: " + ", ".join(missing))
        fixes.append("Use " + ", ".join(missing) + ".")
    if lacks_any:
        found.append("missing one of: " + ", ".join(check.any))
        fixes.append("Use one of " + ", ".join(check.any) + ".")
    if unwanted:
        found.append("not wanted: " + ", ".join(unwanted))
        fixes.append("Leave out " + ", ".join(unwanted) + ".")
    return CheckResult((demands - unmet) / demands, "; ".join(found), " ".join(fixes))


def _regex(check: RegexCheck, text: str) -> CheckResult:
    found = count_matches(check.pattern, text)
    if check.count == 0:
        if found == 0:
            return PASSED
        fix = f"Remove what matches {check.pattern}."
        return CheckResult(0.0, f"{found} matches of {check.pattern}, none allowed", fix)
    if found >= check.count:
        return PASSED
    detail = f"{found} matches of {check.pattern}, wanted {check.count}"
    return CheckResult(0.0, detail, f"Match {check.pattern} at least {check.count} times.")


def _length(check: LengthCheck, text: str) -> CheckResult:
    found = length_of(text, check.unit)
    if check.max is not None and found > check.max:
        detail = f"{_amount(found, check.unit)}, limit {check.max}"
        return CheckResult(0.0, detail, f"Use at most {_amount(check.max, check.unit)}.")
    if check.min is not None and found < check.min:
        detail = f"{_amount(found, check.unit)}, at least {check.min} wanted"
        return CheckResult(0.0, detail, f"Use at least {_amount(check.min, check.unit)}.")
    return PASSED


def _json_schema(check: JsonSchemaCheck, text: str) -> CheckResult:
    try:
        value = read_json(text)
    except ValueError as error:
        return CheckResult(
            0.0, f"not JSON: {error}", "Answer with one JSON value and nothing else."
        )
    # With limits: the text is a model's, and on some a schema with references never ends.
    errors = misfits_now(check.schema_, value)
    return CheckResult(0.0, "; ".join(errors), "Correct " + errors[0] + ".") if errors else PASSED


def _equals(check: EqualsCheck, text: str) -> CheckResult:
    wanted = check.value if isinstance(check.value, str) else json.dumps(check.value)
    if isinstance(check.value, str):
        same = text.strip() == check.value.strip()
    else:
        same = _same_json(text, check.value)
    if same:
        return PASSED
    detail = f"found {_short(text.strip())}, wanted {_short(wanted)}"
    return CheckResult(0.0, detail, f"Answer exactly: {_short(wanted)}")


def _same_json(text: str, wanted: JsonValue) -> bool:
    try:
        value = read_json(text)
    except ValueError:
        return False
    # Compared as text, since in Python True equals 1.
    return json.dumps(value, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def _amount(number: int, unit: LengthUnit) -> str:
    one, many = _UNITS[unit]
    return f"{number} {one if number == 1 else many}"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def similarity(left: str, right: str) -> float:
    """The similarity of two texts, from 0 (nothing in common) to 1 (equal)."""
    return round(Indel.normalized_similarity(left, right), 9)
