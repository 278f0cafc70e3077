"""Reads a worker's reply: its structured result, or its text as the result."""

from collections.abc import Sequence

from pydantic import JsonValue

from perdure.domain.delegation.confidence import read_sureness
from perdure.domain.delegation.results import CreatedSkill, WorkerResult
from perdure.domain.delegation.worker_review import read_defects
from perdure.domain.foundation.json_extraction import objects_in, value_of
from perdure.domain.generated_tools.draft import NeededTool, Unreadable, read_draft
from perdure.domain.memory.skills import title_of

_RESULTS = ("result", "final_result", "answer", "summary", "output", "analysis")
_HONEST = ("confidence", "defects")
# What the contract asks of a worker: an object of these fields alone is a reply, never its content.
_CONTRACT = frozenset({*_RESULTS, *WorkerResult.model_fields}) - {"unread", "unread_tools"}
MOST_ITEMS = 50
FINDING_LIMIT = 600


def read_worker(text: str) -> WorkerResult:
    """The result in a worker's reply; a reply of another shape is itself the result.

    An object that has a result or findings counts as structured; of a reply that was cut off, what
    is whole. One that says how sure the worker is, or what is wrong, counts as well when it has no
    result: that is how a worker honestly fails. Beside fields of another shape these two count too.
    """
    objects = [found.fields for found in objects_in(text)]
    for fields in objects:
        if any(fields.get(key) not in (None, "", [], {}) for key in (*_RESULTS, "findings")):
            return _structured(fields)
    for fields in objects:
        if _is_honest(fields, text):
            return _structured(fields)
    return _of_another_shape(text)


def _is_honest(fields: dict[str, JsonValue], text: str) -> bool:
    """Whether an object without a result is a worker's reply all the same."""
    said = [key for key in _HONEST if key in fields]
    if any(key in fields for key in _RESULTS):
        return bool(said)
    # Between words, one of the two alone may be a quotation.
    enough = len(said) == len(_HONEST) or (bool(said) and value_of(text) == fields)
    return enough and _CONTRACT.issuperset(fields)


def _of_another_shape(text: str) -> WorkerResult:
    whole = value_of(text) if text.strip() else None
    if not isinstance(whole, dict):
        return WorkerResult(result=whole)
    said = {key: whole[key] for key in _HONEST if key in whole}
    return _structured(said).model_copy(update={"result": whole})


def _structured(fields: dict[str, JsonValue]) -> WorkerResult:
    said = next((fields[key] for key in _RESULTS if fields.get(key) not in (None, "")), None)
    sure = read_sureness(fields.get("confidence"))
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
