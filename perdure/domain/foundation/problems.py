"""Everything wrong with an input at once: where, what was found, what is allowed."""

import difflib
import json
from collections.abc import Iterable, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problem_words import allowed, named_values

FOUND_CHARACTERS = 80


class Problem(FrozenModel):
    """One defect of an input, for a person.

    `path` looks like `rubric[2].evaluator.max`; `nearest` is the right name of a probable typo.
    """

    path: str
    found: str
    allowed: str
    nearest: str | None = None

    def __str__(self) -> str:
        return f"{self.path}: {self.words}"

    @property
    def words(self) -> str:
        """What is wrong there, without the place."""
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return f"found {self.found}; allowed: {self.allowed}.{hint}"


def problems_of(
    error: ValidationError, value: object, *, root: str = "", names: Iterable[str] = ()
) -> tuple[Problem, ...]:
    """The problems behind a validation error of pydantic.

    Args:
        error: as raised.
        value: the input that was validated; paths follow it.
        root: the path of the validated value inside the whole input.
        names: right names to look for when a field is unknown.
    """
    known = sorted(names)
    return tuple(
        _problem(detail, value, root, known)
        for detail in error.errors(include_url=False)
        # A default that waits for a bad field only repeats that field's problem.
        if detail["type"] != "default_factory_not_called"
    )


def path_of(root: str, steps: Sequence[int | str]) -> str:
    """`("conditions", 1, "limit")` under `termination` is `termination.conditions[1].limit`."""
    path = root
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The known name that a typo most probably meant, or None."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return close[0] if close else None


def shown(value: object) -> str:
    """A found value in a message, short."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return text if len(text) <= FOUND_CHARACTERS else text[: FOUND_CHARACTERS - 1] + "…"


def _problem(detail: ErrorDetails, value: object, root: str, names: list[str]) -> Problem:
    is_field = detail["type"] in {"extra_forbidden", "missing"}
    path = path_of(root, _real_steps(detail["loc"], value, keep_last=is_field))
    last = str(detail["loc"][-1]) if detail["loc"] else ""
    match detail["type"]:
        case "extra_forbidden":
            known = "one of " + ", ".join(names) if names else allowed(detail)
            near = nearest_name(last, names)
            return Problem(path=path, found=f"the field {last}", allowed=known, nearest=near)
        case "missing":
            return Problem(path=path, found="nothing", allowed=allowed(detail))
        case "union_tag_not_found":
            field = str(detail.get("ctx", {}).get("discriminator", "type")).strip("'")
            path = f"{path}.{field}" if path else field
            return Problem(path=path, found="nothing", allowed=allowed(detail))
        case "union_tag_invalid":
            return _wrong_tag(detail, path)
        case "literal_error":
            near = nearest_name(str(detail["input"]), named_values(detail))
            return Problem(
                path=path or "input",
                found=shown(detail["input"]),
                allowed=allowed(detail),
                nearest=near,
            )
        case _:
            found = shown(detail["input"])
            return Problem(path=path or "input", found=found, allowed=allowed(detail))


def _wrong_tag(detail: ErrorDetails, path: str) -> Problem:
    context = detail.get("ctx", {})
    tag = str(context.get("tag", ""))
    known = [part.strip(" '") for part in str(context.get("expected_tags", "")).split(",")]
    field = str(context.get("discriminator", "type")).strip("'")
    return Problem(
        path=f"{path}.{field}" if path else field,
        found=shown(tag),
        allowed="one of " + ", ".join(known),
        nearest=nearest_name(tag, known),
    )


def _real_steps(
    steps: Sequence[int | str], value: object, *, keep_last: bool
) -> tuple[int | str, ...]:
    """The steps that exist in the input; pydantic mixes the tags of unions among them."""
    kept: list[int | str] = []
    for number, step in enumerate(steps, start=1):
        inner = _inner(value, step)
        is_last_field = keep_last and number == len(steps)
        if inner is not None:
            value = inner[0]
        if inner is not None or is_last_field:
            kept.append(step)
    return tuple(kept)


def _inner(value: object, step: int | str) -> tuple[object] | None:
    """What one step leads to, in a tuple of one; None when there is no such step."""
    match value, step:
        case dict(), _ if step in value:
            return (value[step],)
        case ((list() | tuple()), int()) if step < len(value):
            return (value[step],)
        case _:
            return None
