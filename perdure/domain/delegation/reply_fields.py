"""Which object of a worker's reply is its answer, and what its fields are called.

Models write the names of fields in any case, wrap the object once more, and correct themselves
further down. What is found here is read by `worker_reply`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from perdure.domain.delegation.results import WorkerResult
from perdure.domain.foundation.json_extraction import Found, all_objects, value_of
from perdure.domain.llm.structured_replies import Fields

RESULTS = ("result", "final_result", "answer", "summary", "output", "analysis")
HONEST = ("confidence", "defects")
_SURENESS = ("confidence_score", "confidence_level", "certainty", "sureness")
_STATUS = ("status", "state", "outcome")
_SWITCHES = ("success", "succeeded", "ok", "done", "completed")
_ERRORS = ("error", "errors", "failure", "exception")
_WHY = frozenset({
    "blocker", "blockers", "cause", "code", "comment", "comments", "description", "detail",
    "details", "explanation", "message", "next_steps", "note", "notes", "problem", "problems",
    "reason", "reasons", "task", "why", "worker",
})  # fmt: skip
# What the contract asks of a worker: an object of these fields alone is a reply, never its content.
# `unread` and `unread_tools` are filled by the reader. A worker that uses the names means content.
_CONTRACT = frozenset({*RESULTS, *WorkerResult.model_fields}) - {"unread", "unread_tools"}
TELLING = frozenset({*_STATUS, *_SWITCHES, *_ERRORS, *_WHY})
_KNOWN = _CONTRACT | TELLING
_FAILED = re.compile(
    r"(?:fail(?:ed|s|ure|ing)?|error(?:ed)?|abort(?:ed)?|block(?:ed)?|unable|impossible|incomplete|"
    r"unfinished|unsuccessful|cancell?ed|reject(?:ed)?|refused|denied|no access|timed? ?out|"
    r"not (?:done|complete|completed|possible|successful|ok|found|finished|able|started)|"
    r"(?:can ?not|could not|can't|couldn't)\b.*)(?:\W.*)?",
    re.DOTALL,
)
_FENCED = re.compile(r"\s*```[\w-]*[ \t]*\n(?P<body>.*?)```\s*", re.DOTALL)
_REST = re.compile(r"[\s`]*")
_EMPTY: tuple[JsonValue, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class AnswerFields:
    """The object that a worker answered with, its names in the contract's spelling.

    `refused` says why nothing in it may be taken; `after` is the text behind it.
    """

    fields: Fields
    refused: str = ""
    after: str = ""


def answer_in(text: str) -> AnswerFields | None:
    """The object that is a worker's answer; None if its reply has another shape.

    Of several the last counts that says how sure the worker is, or what is wrong, or how it ended;
    without one the last. A worker that corrects itself does so further down.
    """
    # Those in fences are found first, wherever they stand.
    found = sorted(all_objects(text), key=lambda one: one.start)
    answers = [one for item in found if (one := _answer(item, text)) is not None]
    marked = [one for one in answers if one.refused or any(marks(one.fields))]
    return next(reversed(marked or answers), None)


def whole_object(text: str) -> Fields | None:
    """The object that a reply is as a whole, in a fence or not; None for anything else."""
    fence = _FENCED.fullmatch(text)
    value = value_of(fence["body"] if fence else text) if text.strip() else None
    return value if isinstance(value, dict) else None


def named(fields: Fields) -> tuple[Fields, str]:
    """Fields by the contract's names; and what is wrong if one is given twice in two spellings."""
    given: Fields = {}
    for name, value in fields.items():
        known = "_".join(name.strip().casefold().replace("-", " ").replace("_", " ").split())
        known = "confidence" if known in _SURENESS else known
        key = known if known in _KNOWN else name
        # An empty second spelling contradicts nothing.
        if key in given and given[key] != value and value not in _EMPTY:
            if given[key] not in _EMPTY:
                return given, f"the field {key!r} is given twice, with different values"
            given[key] = value
        elif key not in given:
            given[key] = value
    return given, ""


def marks(fields: Fields) -> tuple[str, ...]:
    """The fields by which a worker says how good its work is."""
    return (*(key for key in HONEST if key in fields), *(["status"] * says_failed(fields)))


def says_failed(fields: Fields) -> bool:
    """Whether an object says that the work was not done: by a status, a switch, or an error alone.

    A status beside content of its own, with a confidence, is content: a build may have failed.
    """
    content = [key for key, value in fields.items() if key not in _KNOWN and value not in _EMPTY]
    if content and "confidence" in fields:
        return False
    if any(_is_failure(fields.get(key)) for key in _STATUS):
        return True
    # `is`, since 0 or an empty text does not say that it failed.
    if any(fields.get(key) is False for key in _SWITCHES):
        return True
    # “error: false” and “error: 0” report none; 0 equals False here.
    has_error = any(fields.get(key) not in (*_EMPTY, False) for key in _ERRORS)
    said = any(fields.get(key) not in _EMPTY for key in (*RESULTS, "findings", "artifacts"))
    return has_error and not said and not content


def _is_failure(value: JsonValue) -> bool:
    if not isinstance(value, str):
        return False
    said = " ".join(value.casefold().replace("_", " ").replace("-", " ").split())
    return _FAILED.fullmatch(said) is not None


def _answer(found: Found, text: str) -> AnswerFields | None:
    after = text[found.end :]
    if found.refused:
        # What may not be taken is searched as text: it may hold an honest failure.
        written = text[found.start : found.end].casefold()
        mentioned = [key for key in (*RESULTS, *HONEST) if f'"{key}"' in written]
        counts = any(key in HONEST for key in mentioned) or _ends_reply(found, text)
        return AnswerFields({}, found.refused, after) if mentioned and counts else None
    for fields, problem in _unwrapped(found.fields):
        if _has_result(fields) or _is_honest(fields, found, text):
            return AnswerFields(fields, problem, after)
    return None


def _unwrapped(fields: Fields) -> Iterator[tuple[Fields, str]]:
    """The answer that an object only wraps, if any, then the object itself."""
    outer = named(fields)
    inner = _inner(outer[0])
    if inner is not None:
        yield named(inner)
    yield outer


def _inner(fields: Fields) -> Fields | None:
    """The answer inside an object's only field; None if the object is the answer itself."""
    if marks(fields):
        return None
    rest = [value for value in fields.values() if value not in _EMPTY]
    inner = [one for value in rest if isinstance(one := _read(value), dict)]
    # A list beside the inner object is content, so nothing is only wrapped.
    if len(inner) != 1 or any(isinstance(value, list) for value in rest):
        return None
    found, problem = named(inner[0])
    is_workers = _KNOWN.issuperset(found) and (bool(problem) or bool(marks(found)))
    return inner[0] if is_workers else None


def _read(value: JsonValue) -> JsonValue:
    return value_of(value) if isinstance(value, str) else value


def _has_result(fields: Fields) -> bool:
    return any(fields.get(key) not in _EMPTY for key in (*RESULTS, "findings"))


def _is_honest(fields: Fields, found: Found, text: str) -> bool:
    """Whether an object without a result is still a worker's answer."""
    said = marks(fields)
    if any(key in fields for key in RESULTS):
        return bool(said)
    # Between words, a single mark may be a quotation.
    is_stated = all(key in fields for key in HONEST)
    enough = is_stated or (bool(said) and _ends_reply(found, text))
    return enough and _KNOWN.issuperset(fields)


def _ends_reply(found: Found, text: str) -> bool:
    """Whether an object stands on lines of its own, and nothing comes after it."""
    line = text[: found.start].rpartition("\n")[2]
    return not line.strip() and _REST.fullmatch(text, found.end) is not None
