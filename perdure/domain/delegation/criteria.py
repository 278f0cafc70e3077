"""Reads what a reviewer says about the success criteria of a finished task."""

from collections.abc import Sequence

from pydantic import JsonValue

from perdure.domain.delegation.json_text import objects_in
from perdure.domain.delegation.key_findings import shortened
from perdure.domain.evaluation_reply import BadReply


def read_criteria(text: str, criteria: Sequence[str]) -> tuple[str, ...] | BadReply:
    """The criteria that are not met, each with what is missing; or why the reply is none.

    Every criterion needs an answer of its own: one that is passed over counts for nothing.
    """
    for found in objects_in(text):
        items = found.fields.get("criteria")
        if isinstance(items, list):
            return _unmet(items, criteria)
    return BadReply(("The reply holds no JSON object with a list of criteria.",))


def _unmet(items: Sequence[JsonValue], criteria: Sequence[str]) -> tuple[str, ...] | BadReply:
    answers: dict[int, str | None] = {}
    for item in items:
        if not isinstance(item, dict):
            continue
        number, met, missing = item.get("number"), item.get("met"), item.get("missing")
        if isinstance(number, int) and isinstance(met, bool):
            answers[number] = (
                None if met else shortened(missing if isinstance(missing, str) else "")
            )
    silent = [str(number) for number in range(1, len(criteria) + 1) if number not in answers]
    if silent:
        return BadReply((f"No answer for criterion {', '.join(silent)}.",))
    return tuple(
        f"{criterion}" + (f" ({said})" if said else "")
        for number, criterion in enumerate(criteria, start=1)
        if (said := answers[number]) is not None
    )
