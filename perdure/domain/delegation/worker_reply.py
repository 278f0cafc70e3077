"""Reads a worker's reply: its structured result, or its text as the result."""

from collections.abc import Sequence

from pydantic import JsonValue

from perdure.domain.delegation.confidence import Sureness, labelled_sureness, read_sureness
from perdure.domain.delegation.reply_fields import (
    RESULTS,
    TELLING,
    answer_in,
    marks,
    named,
    says_failed,
    whole_object,
)
from perdure.domain.delegation.results import CreatedSkill, WorkerResult
from perdure.domain.delegation.worker_review import read_defects
from perdure.domain.foundation.json_extraction import value_of
from perdure.domain.generated_tools.draft import NeededTool, Unreadable, read_draft
from perdure.domain.llm.structured_replies import Fields
from perdure.domain.memory.skills import title_of

MOST_ITEMS = 50
FINDING_LIMIT = 600
_NOT_DONE = "The work counts as not done."


def read_worker(text: str) -> WorkerResult:
    """The result in a worker's reply; a reply of another shape is itself the result.

    An object that has a result or findings counts as structured; of a reply that was cut off, what
    is whole. One that says how sure the worker is, what is wrong, or that it failed counts as well
    when it has no result: that is how a worker honestly fails. Beside fields of another shape these
    count too, and so does a confidence that stands by its name at the end of prose.
    """
    answer = answer_in(text)
    if answer is None:
        return _of_another_shape(text)
    if answer.refused:
        return WorkerResult(result=text, confidence=0.0, unread=(f"{answer.refused}. {_NOT_DONE}",))
    fields = answer.fields
    if "confidence" not in fields and (label := labelled_sureness(answer.after)) is not None:
        fields = {**fields, "confidence": label}
    found = _structured(fields)
    # What it says of its failure is all that the manager can be shown.
    if found.result is None and any(key in TELLING for key in fields):
        return found.model_copy(update={"result": answer.fields})
    return found


def _of_another_shape(text: str) -> WorkerResult:
    whole = whole_object(text)
    if whole is None:
        value = value_of(text) if text.strip() else None
        sure = _sureness({"confidence": labelled_sureness(text)})
        return WorkerResult(result=value, confidence=sure.value, unread=(sure.problem,))
    fields, problem = named(whole)
    said = marks(fields)
    if not said and not problem:
        return WorkerResult(result=value_of(text))
    if problem:
        # As a confidence that nobody can read: it counts as 0, and the manager is told.
        fields = {**fields, "confidence": problem}
    # The whole object is the result: none of its fields may stand for it.
    return _structured({**fields, **dict.fromkeys(RESULTS)}).model_copy(update={"result": whole})


def _sureness(fields: Fields) -> Sureness:
    """How sure a worker is: 0 if it says that it failed, or if its confidence is unreadable.

    An empty confidence is none, as if the field were not there.
    """
    # Before its number: who says that it failed may be sure of just that.
    if says_failed(fields):
        return Sureness(0.0)
    sure = read_sureness(fields.get("confidence"))
    return Sureness(0.0, f"{sure.problem} {_NOT_DONE}") if sure.problem else sure


def _structured(fields: Fields) -> WorkerResult:
    # Not by truth: 0, false and an empty list are results.
    said = next((fields[key] for key in RESULTS if fields.get(key) not in (None, "")), None)
    sure = _sureness(fields)
    tools, unread_tools = _tools(_list(fields.get("tools_needed")))
    return WorkerResult(
        result=value_of(said) if isinstance(said, str) else said,
        confidence=sure.value,
        findings=_texts(fields.get("findings")),
        artifacts=_texts(fields.get("artifacts")),
        skills_created=tuple(_skills(_list(fields.get("skills_created")))),
        tools_needed=tuple(tools),
        tools_created=_texts(fields.get("tools_created")),
        defects=read_defects(_list(fields.get("defects"))),
        unread=(sure.problem,),
        unread_tools=tuple(unread_tools),
    )


def _skills(items: Sequence[JsonValue]) -> list[CreatedSkill]:
    """Skills as Markdown, blank ones dropped; a name beside the text becomes its heading."""
    found: list[CreatedSkill] = []
    for item in items:
        given = item if isinstance(item, dict) else {"markdown": item}
        said = (given.get(key) for key in ("markdown", "content", "text"))
        text = next((one.strip() for one in said if isinstance(one, str) and one.strip()), "")
        name = given.get("name")
        if text and isinstance(name, str) and name.strip() and title_of(text) is None:
            text = f"# Skill: {name.strip()}\n\n{text}"
        if text:
            found.append(CreatedSkill(markdown=text))
    return found


def _tools(items: Sequence[JsonValue]) -> tuple[list[NeededTool], list[str]]:
    """Tools with a name and code, and what is wrong with the others.

    A schema or examples that came as text are read as JSON.
    """
    found: list[NeededTool] = []
    problems: list[str] = []
    for item in items:
        given = item if isinstance(item, dict) else {}
        schema = _json(given.get("schema") or given.get("parameters")) or {}
        # Without the examples: what is wrong with those is told when all of the draft is read.
        read = read_draft({**given, "schema": schema, "examples": ()} if given else item)
        if isinstance(read, Unreadable):
            problems.append(read.problem)
            continue
        about = given.get("description")
        found.append(
            NeededTool(
                name=read.name,
                code=str(given["code"]),
                parameters=read.parameters,
                description=about if isinstance(about, str) else "",
                examples=tuple(_json(one) for one in _list(_json(given.get("examples")))),
            )
        )
    return found, problems


def _texts(value: JsonValue) -> tuple[str, ...]:
    """A list of texts; an object in it stands for its most telling field."""
    items = value if isinstance(value, list) else [value]
    texts = (_text(item) for item in items)
    return tuple(text[:FINDING_LIMIT] for text in texts if text)[:MOST_ITEMS]


def _text(item: JsonValue) -> str:
    if isinstance(item, dict):
        said = (item.get(key) for key in ("title", "finding", "text", "path", "name"))
        return next((one.strip() for one in said if isinstance(one, str)), "")
    return "" if item is None or isinstance(item, list) else str(item).strip()


def _list(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, list):
        return value[:MOST_ITEMS]
    return [] if value in (None, "") else [value]


def _json(value: JsonValue) -> JsonValue:
    return value_of(value) if isinstance(value, str) else value
