"""Parses any value sent to a run into a message, or explains why it is not one.

Anybody may send anything: nothing, a text, three values, bytes under a foreign key. What cannot be
read is refused by a sentence that names the field and shows a message that would have been taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from perdure.domain.foundation.plain_text import clipped
from perdure.domain.foundation.problems import allowed_in_words, format_value, nearest_name, path_of
from perdure.domain.run.messages import MESSAGES, Answer, AnyMessage, ShortAnswer

AnyModel = TypeVar("AnyModel", bound=BaseModel)

PROBLEMS_TOLD = 3
NAME_CHARACTERS = 60
NAMES_CHARACTERS = 200
# More than any message has that a run takes: as JSON they would be above the limit of an amendment.
# The reader tells of each wrong value, so it would hold up a task for longer than one may last.
MOST_VALUES = 32 * 1024
SHORT_ANSWERS = ("approve", "deny")
"""Signals that answer an approval by its gate's name alone."""
EXAMPLES: Mapping[str, str] = {
    "pause": '{"by": "me"}',
    "resume": '{"by": "me"}',
    "stop": '{"mode": "graceful"} or {"mode": "now"}',
    "escalate": '{"note": "why"}',
    "answer": '{"gate": "g1", "choice": "continue"}',
    "approve": '"g1-7f3a"',
    "deny": '"g1-7f3a" or {"gate": "g1-7f3a", "text": "why"}',
    "amend": '{"guidance": "…"} or {"budget": {"cost_usd": 3}}',
    "add_input": '{"text": "…"}',
    "retry": '{"note": "why"}',
    "events": '{"since": 0}',
    "questions_below": '{"run": "RUN.w1-name", "questions": []}',
}
# The field that a bare text fills: `"also mention the price"` says what it wants to say.
_BARE: Mapping[str, str] = {
    "stop": "mode",
    "escalate": "note",
    "retry": "note",
    "add_input": "text",
    "amend": "guidance",
    "approve": "gate",
    "deny": "gate",
}


REPORTS: Mapping[str, str] = {
    "ToolCallReport": 'send {"outcome": "ok"} for a tool without output, or '
    '{"outcome": "error", "code": "why"}'
}
"""What a person may send as the result of a step, by the class of its report."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A value that nobody here can decode, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Misread:
    """Why what was sent is no message of the verb."""

    why: str


@dataclass(frozen=True, slots=True)
class UnreadableReport:
    """What stands for the result of a step that is no report of it, and why.

    Somebody completed the step by hand (`temporal activity complete`). Whoever uses it as a report
    all the same fails with the reason.
    """

    why: str

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse to be a report."""
        # Python asks for such names itself, when it copies or compares; they are simply absent.
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(f"the result of a step is no report of it: {self.why}")


def unreadable_report(form: str, value: object) -> UnreadableReport:
    """Why a value is no report, and what would be.

    Args:
        form: the name of the report's class.
        value: what came, decoded.
    """
    wanted = REPORTS.get(form, "only a worker can report this step, as its result is in the store")
    found = "nothing" if value is None else _kind(value)
    if isinstance(value, dict):
        names = ", ".join(named(str(name)) for name in value)
        found = clipped(f"an object with {names or 'no field'}", NAMES_CHARACTERS)
    return UnreadableReport(f"found {found}; {wanted}")


def read_message(verb: str, given: Sequence[object]) -> AnyMessage | Misread:
    """The message that the values of a signal or an update make.

    Args:
        verb: one of the verbs of a run, or a short answer.
        given: the decoded values as they came; none, or null, is a message of defaults.
    """
    if verb not in SHORT_ANSWERS:
        return read_form(verb, MESSAGES[verb], given)
    read = read_form(verb, ShortAnswer, given)
    if isinstance(read, Misread):
        return read
    return Answer.model_validate({**read.model_dump(exclude_unset=True), "choice": verb})


def read_form(verb: str, form: type[AnyModel], given: Sequence[object]) -> AnyModel | Misread:
    """The values of a signal, an update or a query as its form, by the rules of `read_message`."""
    fields = _fields(verb, given)
    if isinstance(fields, Misread):
        return fields
    if _is_crowded(fields):
        return _misread(verb, f"it holds more than {MOST_VALUES:,} values")
    try:
        return form.model_validate(fields)
    except ValidationError as error:
        told = [_told(one, form) for one in error.errors(include_url=False)[:PROBLEMS_TOLD]]
        left = error.error_count() - PROBLEMS_TOLD
        return _misread(verb, "; ".join(told) + (f"; and {left} more" if left > 0 else ""))
    except RecursionError:
        return _misread(verb, "it is nested too deeply")


def unknown_verb(name: str) -> str:
    """What to say to a signal of a name that no run knows."""
    known = sorted((*MESSAGES, *SHORT_ANSWERS))
    near = nearest_name(name, known)
    hint = f" (did you mean `{near}`?)" if near else ""
    return f"there is no such signal{hint}; there are {', '.join(known)}"


def named(verb: str) -> str:
    """A sender's name for a signal, fit for one line."""
    text = " ".join("".join(c if c.isprintable() else " " for c in verb).split()) or "(no name)"
    return clipped(text, NAME_CHARACTERS)


def _fields(verb: str, given: Sequence[object]) -> dict[str, object] | Misread:
    """The one object that was sent; nothing at all is an empty one."""
    if len(given) > 1:
        return _misread(verb, f"it takes one object, {len(given)} values came")
    value = given[0] if given else None
    match value:
        case None:
            return {}
        case dict():
            return value
        case Unreadable(why):
            return _misread(verb, why)
        case BaseModel():  # our own code calls a handler directly
            return value.model_dump(exclude_unset=True)
        case str() if value and verb in _BARE:
            return {_BARE[verb]: value}
        case _:
            return _misread(verb, f"found {_kind(value)} where an object belongs")


def _is_crowded(fields: Mapping[str, object]) -> bool:
    """Whether there are too many values in it, at any depth, to look at each."""
    count = 0
    left: list[object] = [fields]
    while left:
        one = left.pop()
        inner = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        count += len(inner)
        if count > MOST_VALUES:
            return True
        left.extend(inner)
    return False


def _misread(verb: str, why: str) -> Misread:
    return Misread(f"{why}; send {EXAMPLES[verb]}")


def _kind(value: object) -> str:
    match value:
        case str():
            return f"the text {format_value(value)}"
        case bytes():
            return f"{len(value)} bytes"
        case list():
            return f"a list of {len(value)}"
        case bool() | int() | float():
            return format_value(value)
        case _:
            return f"a value of type {type(value).__name__}"


def _told(detail: ErrorDetails, form: type[BaseModel]) -> str:
    """One defect in words."""
    place = named(path_of("", detail["loc"]))
    match detail["type"]:
        case "extra_forbidden":
            near = nearest_name(place, form.model_fields)
            return f"`{place}` is no field{f' (did you mean `{near}`?)' if near else ''}"
        case "missing":
            return f"`{place}` is missing"
        case _:
            return f"`{place}`: found {_short(detail['input'])}, wanted {allowed_in_words(detail)}"


def _short(value: object) -> str:
    """A found value, never in full when it is large: dumping it would cost more than reading it."""
    if isinstance(value, dict | list | tuple):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return format_value(value[:NAME_CHARACTERS] if isinstance(value, str) else value)
