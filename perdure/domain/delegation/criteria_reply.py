"""Reads what a reviewer says about the success criteria of a finished task."""

from collections.abc import Sequence

from pydantic import JsonValue

from perdure.domain.delegation.key_findings import shortened
from perdure.domain.foundation.problems import shown
from perdure.domain.llm.structured_replies import BadReply, find_reply


def read_criteria(text: str, criteria: Sequence[str]) -> tuple[str, ...] | BadReply:
    """The criteria that are not met, each with what is missing; or why the reply is none.

    Every criterion needs an answer of its own: one that is passed over counts for nothing.
    """
    found = find_reply(text, "criteria")
    if isinstance(found, BadReply):
        return found
    items = None if found is None else found.fields["criteria"]
    if not isinstance(items, list):
        return BadReply(("The reply holds no JSON object with a list of criteria.",))
    return _unmet(items, criteria)


def _unmet(items: Sequence[JsonValue], criteria: Sequence[str]) -> tuple[str, ...] | BadReply:
    answers: dict[int, str | None] = {}
    for item in items:
        answer = _answer(item)
        if answer is None or not 0 < answer[0] <= len(criteria):
            return BadReply(
                (f"criteria: {shown(item)} answers no criterion; give number and met.",)
            )
        number, said = answer
        if number in answers and (answers[number] is None) != (said is None):
            return BadReply((f"Criterion {number} is called met and not met.",))
        answers[number] = said
    silent = [str(number) for number in range(1, len(criteria) + 1) if number not in answers]
    if silent:
        return BadReply((f"No answer for criterion {', '.join(silent)}.",))
    return tuple(
        f"{criterion}" + (f" ({said})" if said else "")
        for number, criterion in enumerate(criteria, start=1)
        if (said := answers[number]) is not None
    )


def _answer(item: JsonValue) -> tuple[int, str | None] | None:
    """The number of a criterion with what is missing, None for nothing; None for no answer."""
    given = item if isinstance(item, dict) else {}
    number, met, missing = given.get("number"), given.get("met"), given.get("missing")
    if isinstance(number, bool) or not isinstance(number, int) or not isinstance(met, bool):
        return None
    return number, None if met else shortened(missing if isinstance(missing, str) else "")
