"""The short form of a termination condition, `{type, value}`, written out.

An object gives the parameters; a number or numeric text iterations or seconds; other text the
criteria of a review, or a moment.
"""

import re

from perdure.domain.evaluation.termination_conditions import MAX_DEPTH

REVIEW_CRITERIA = "The work meets the goal completely and is of good quality."
_NUMBER = re.compile(r"\d+(\.\d+)?")
_NUMBERED = {
    "evaluation_bound": "max_review_rounds",
    "goal_bound": "max_iterations",
    "iteration_bound": "iterations",
    "max_iterations": "limit",
    "time_bound": "seconds",
    "timeout": "seconds",
}
_TEXTUAL = {"evaluation_bound": "criteria", "time_bound": "until"}


def written_out(value: object, level: int = 0) -> object:
    """The condition with `value` replaced by the parameters that it stands for.

    What is no short form comes back as it is, for the validation to judge.
    """
    if not isinstance(value, dict) or level > MAX_DEPTH:
        return value
    whole = _expanded(value)
    parts = whole.get("conditions")
    if isinstance(parts, list | tuple):
        whole["conditions"] = [written_out(part, level + 1) for part in parts]
    return whole


def _expanded(value: dict[str, object]) -> dict[str, object]:
    kind = str(value.get("type"))
    # A copy: the fields are stored and hashed as their author wrote them.
    whole = dict(value)
    # A tool_bound has a parameter of that name, so only an object is the short form there.
    if "value" in whole and (kind != "tool_bound" or isinstance(whole["value"], dict)):
        whole.update(_parameters(kind, whole.pop("value")))
    if kind == "iteration_bound" and "iterations" not in whole and "max_iterations" in whole:
        whole["iterations"] = whole.pop("max_iterations")
    if kind == "evaluation_bound":
        whole.setdefault("criteria", REVIEW_CRITERIA)
    return whole


def _parameters(kind: str, value: object) -> dict[str, object]:
    if isinstance(value, dict):
        return {str(name): item for name, item in value.items()}
    if value is None:
        return {}
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number or (isinstance(value, str) and _NUMBER.fullmatch(value.strip())):
        return {_NUMBERED.get(kind, "value"): value}
    return {_TEXTUAL.get(kind, _NUMBERED.get(kind, "value")): value}
