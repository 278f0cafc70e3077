"""All problems of an input at once: where, what was found, what is allowed."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.plain_text import clipped

OBJECT = "an object with named fields"
# Here the library names the class that it would build, which no reader of a task file knows.
OBJECT_TYPES = frozenset(
    {
        "model_type",
        "model_attributes_type",
        "dataclass_type",
        "dataclass_exact_type",
        "dict_type",
        "mapping_type",
        "frozen_dict_type",
        "ordered_dict_type",
        "named_tuple_type",
        "arguments_type",
    }
)
_WORDS: dict[str, str] = {
    "missing": "a value; the field is required",
    "missing_argument": "a value; the field is required",
    "extra_forbidden": "a known field",
    "union_tag_not_found": "a value, it says what this is",
    "none_required": "nothing (null)",
    "int_from_float": "a whole number",
    "finite_number": "a finite number",
    "json_invalid": "valid JSON",
    "json_type": "JSON",
    "invalid-json-value": "a value of JSON",
    "invalid_key": "names that are texts",
    "enum": "one of the known values",
    "recursion_loop": "a value that does not hold itself",
    "timezone_aware": "a moment with its time zone",
    "timezone_naive": "a moment without a time zone",
    "string_not_ascii": "ASCII signs",
}
_KINDS: dict[str, str] = {
    "int": "a whole number",
    "float": "a number",
    "decimal": "an amount such as 2.00",
    "bool": "true or false",
    "string": "a text",
    "bytes": "bytes",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "deque": "a list",
    "iterable": "a list",
    "date": "a date such as 2026-01-31",
    "datetime": "a moment such as 2026-01-31T12:00:00Z",
    "time": "a time such as 12:00:00",
    "time_delta": "a number of seconds",
    "path": "a path",
    "url": "an address such as https://host/path",
    "uuid": "a UUID",
    "fraction": "a number",
    "complex": "a number",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "at least {}"),
    "less_than_equal": ("le", "at most {}"),
    "greater_than": ("gt", "more than {}"),
    "less_than": ("lt", "less than {}"),
    "multiple_of": ("multiple_of", "a multiple of {}"),
    "too_short": ("min_length", "at least {} items"),
    "too_long": ("max_length", "at most {} items"),
    "string_too_short": ("min_length", "a text of at least {} characters"),
    "string_too_long": ("max_length", "a text of at most {} characters"),
    "bytes_too_short": ("min_length", "at least {} bytes"),
    "bytes_too_long": ("max_length", "at most {} bytes"),
    "url_too_long": ("max_length", "an address of at most {} characters"),
    "decimal_max_digits": ("max_digits", "an amount of at most {} digits"),
    "decimal_max_places": ("decimal_places", "an amount of at most {} decimals"),
    "decimal_whole_digits": ("whole_digits", "an amount of at most {} digits before the point"),
    "string_pattern_mismatch": ("pattern", "a text of the form {}"),
}
_OURS = frozenset({"value_error", "assertion_error"})
_KIND = re.compile(r"(?P<kind>\w+?)_(?:type|parsing|parsing_size|from_\w+|unicode|invalid\w*)$")
# Of a field like these people write `60s` or `1h`; "a number" alone would not say which one.
_OF_SECONDS = re.compile(r"(?:_s|time|timeouts?)$")
OTHERWISE = "another value"


def allowed_in_words(detail: Mapping[str, object]) -> str:
    """What would be right where a validation failed.

    Args:
        detail: one entry of a validation error's list: its type, context and message.
    """
    kind, context = str(detail["type"]), _context(detail)
    if kind in _OURS:
        return str(detail["msg"]).partition(", ")[2].rstrip(".") or OTHERWISE
    if kind in OBJECT_TYPES:
        return OBJECT
    if kind == "literal_error":
        names = named_values(detail)
        return names[0] if len(names) == 1 else "one of " + ", ".join(names)
    if kind == "string_too_short" and context.get("min_length") == 1:
        return "a text that is not empty"
    if kind == "too_short" and context.get("min_length") == 1:
        return (
            "a text that is not empty" if context.get("field_type") == "Value" else "at least one"
        )
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        bound = context.get(name)
        return words.format(f"{bound:g}" if isinstance(bound, float) else bound)
    if kind in _WORDS:
        return _WORDS[kind]
    found = _KIND.match(kind)
    if found and found["kind"] in {"int", "float"} and _is_of_seconds(detail):
        return f"{_KINDS[found['kind']]} of seconds"
    if found and found["kind"] in _KINDS:
        return _KINDS[found["kind"]]
    return OTHERWISE if known_to_library(kind) else str(detail["msg"]).rstrip(".")


def _is_of_seconds(detail: Mapping[str, object]) -> bool:
    place = detail.get("loc", ())
    # An item of `timeouts` has the name of a tool.
    names = place[-2:] if isinstance(place, tuple) else ()
    return any(_OF_SECONDS.search(str(name)) for name in names)


def named_values(detail: Mapping[str, object]) -> list[str]:
    """The values that a field allows, if it allows only certain ones."""
    expected = str(_context(detail).get("expected", ""))
    return re.findall(r"'([^']*)'", expected) or [
        part for part in re.split(r", | or ", expected) if part
    ]


def _context(detail: Mapping[str, object]) -> Mapping[str, object]:
    found = detail.get("ctx")
    return found if isinstance(found, dict) else {}


def known_to_library(kind: str) -> bool:
    """Whether a defect's type is the library's own; those of our validators have other names."""
    return kind in _LIBRARY or _KIND.match(kind) is not None


_LIBRARY = frozenset(
    {
        "no_such_attribute", "needs_python_object", "recursion_depth_exceeded", "frozen_field",
        "frozen_instance", "get_attribute_error", "default_factory_not_called", "iteration_error",
        "set_item_not_hashable", "missing_sentinel_error", "ellipsis_error", "date_past",
        "date_future", "date_from_datetime_inexact", "datetime_past", "datetime_future",
        "timezone_offset", "is_instance_of", "is_subclass_of", "callable_type", "url_scheme",
        "url_syntax_violation", "uuid_version", "unexpected_keyword_argument",
        "missing_keyword_only_argument", "unexpected_positional_argument",
        "missing_positional_only_argument", "multiple_argument_values", "complex_str_parsing",
        "union_tag_invalid",
    }
)  # fmt: skip


FOUND_CHARACTERS = 80
TYPO_CHARACTERS = 1_000
PROBLEMS_TOLD = 3


class Problem(FrozenModel):
    """One defect of an input, for a person.

    `path` looks like `rubric[2].evaluator.max`; `nearest` is the right name of a probable typo.
    `why` says what is wrong, with the cure, where more than another value is needed.
    """

    path: str
    found: str
    allowed: str = ""
    nearest: str | None = None
    why: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.words}"

    @property
    def words(self) -> str:
        """What is wrong there, without the place."""
        if self.why:
            return f"{self.found}: {self.why}."
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        return f"found {self.found}; allowed: {self.allowed}.{hint}"


def repeated(names: Sequence[str]) -> list[str]:
    """The names that come more than once, sorted."""
    return sorted({name for name in names if names.count(name) > 1})


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


def render_problems(problems: Sequence[Problem], most: int = PROBLEMS_TOLD) -> str:
    """The first problems as one line, and how many more there are."""
    more = f" And {len(problems) - most} more." if len(problems) > most else ""
    return " ".join(str(problem) for problem in problems[:most]) + more


def path_of(root: str, steps: Sequence[int | str]) -> str:
    """`("conditions", 1, "limit")` under `termination` is `termination.conditions[1].limit`."""
    path = root
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            name = clipped(step, FOUND_CHARACTERS)
            path += f".{name}" if path else name
    return path


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """The known name that a typo most probably meant, or None."""
    if len(name) > TYPO_CHARACTERS:
        return None  # comparing takes long, and a text that long is no typo
    close = difflib.get_close_matches(name, list(names), n=1)
    return close[0] if close else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A sentence that names what a typo probably meant, with a space before it; empty for none."""
    near = nearest_name(name, names)
    return f" Did you mean {near}?" if near else ""


def format_value(value: object) -> str:
    """A found value in a message, short."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    return clipped(escaped(text), FOUND_CHARACTERS)


def escaped(text: str) -> str:
    r"""The text with halves of characters as `\ud83d`: no message with one could be sent."""
    return text.encode("utf-8", "backslashreplace").decode()


def _problem(detail: ErrorDetails, value: object, root: str, names: list[str]) -> Problem:
    is_field = detail["type"] in {"extra_forbidden", "missing"}
    path = path_of(root, _real_steps(detail["loc"], value, keep_last=is_field))
    last = str(detail["loc"][-1]) if detail["loc"] else ""
    match detail["type"]:
        case "extra_forbidden":
            known = "one of " + ", ".join(names) if names else allowed_in_words(detail)
            near = nearest_name(last, names)
            field = clipped(last, FOUND_CHARACTERS)
            return Problem(path=path, found=f"the field {field}", allowed=known, nearest=near)
        case "missing":
            return Problem(path=path, found="nothing", allowed=allowed_in_words(detail))
        case "union_tag_not_found":
            field = str(detail.get("ctx", {}).get("discriminator", "type")).strip("'")
            path = f"{path}.{field}" if path else field
            return Problem(path=path, found="nothing", allowed=allowed_in_words(detail))
        case "union_tag_invalid":
            return _wrong_tag(detail, path)
        case "literal_error":
            near = nearest_name(str(detail["input"]), named_values(detail))
            return Problem(
                path=path or "input",
                found=format_value(detail["input"]),
                allowed=allowed_in_words(detail),
                nearest=near,
            )
        case _:
            found = format_value(detail["input"])
            return Problem(path=path or "input", found=found, allowed=allowed_in_words(detail))


def _wrong_tag(detail: ErrorDetails, path: str) -> Problem:
    context = detail.get("ctx", {})
    tag = str(context.get("tag", ""))
    known = [part.strip(" '") for part in str(context.get("expected_tags", "")).split(",")]
    field = str(context.get("discriminator", "type")).strip("'")
    return Problem(
        path=f"{path}.{field}" if path else field,
        found=format_value(tag),
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
