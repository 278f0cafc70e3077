"""A tool as a worker hands it in: name, code, schema and examples; and the hash that names it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import AliasChoices, Field, JsonValue

from perdure.domain.foundation.base import FrozenModel


class NeededTool(FrozenModel):
    """A tool that a worker wants made; `parameters` (or `schema`) is its JSON schema."""

    name: str
    code: str
    parameters: dict[str, JsonValue] = Field(
        default={}, validation_alias=AliasChoices("parameters", "schema")
    )
    description: str = ""
    examples: tuple[JsonValue, ...] = ()


# Raised with every change that could let other code pass: what older versions validated is
# validated again.
PIPELINE = 1
CODE_CHARACTERS = 32_000
SCHEMA_CHARACTERS = 8_000
EXAMPLE_CHARACTERS = 8_000
EXAMPLES = 10
NAME_CHARACTERS = 64
MOST_DRAFTS = 20

_ARGUMENTS = ("arguments", "args", "input", "inputs")
_RESULT = ("result", "expected", "output")


class ToolExample(FrozenModel):
    """One call, and what it returns; without a `result` it only has to return something."""

    arguments: dict[str, JsonValue]
    result: dict[str, JsonValue] | None = None


class ToolDraft(FrozenModel):
    """What the pipeline looks at. `parameters` is the JSON schema of the handler's arguments."""

    name: str
    code: str
    parameters: dict[str, JsonValue] = {}
    examples: tuple[ToolExample, ...] = ()

    @property
    def hash(self) -> str:
        """The tool's identity: the SHA-256 of name, code and schema."""
        # Without examples, which only test what runs. Stored tools are known by these hashes, so
        # another form would lose them all.
        canonical = json.dumps(
            [self.name, self.code, self.parameters], sort_keys=True, separators=(",", ":")
        )
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What a worker handed in that is no draft."""

    problem: str


def read_draft(value: object) -> ToolDraft | Unreadable:
    """One entry of `tools_needed`, in the spellings that models use.

    Line ends become line feeds: that is the text which is hashed, checked, stored and executed.
    """
    if not isinstance(value, Mapping):
        return Unreadable("a tool is an object with name, code, schema and examples")
    name, code = value.get("name"), value.get("code")
    if not isinstance(name, str) or not name.strip():
        return Unreadable("a tool needs a name such as text.count")
    if not isinstance(code, str) or not code.strip():
        return Unreadable(f"{_short(name)}: a tool needs its Python code, the field `code`")
    schema = value.get("schema", value.get("parameters", {}))
    if not isinstance(schema, Mapping):
        return Unreadable(f"{_short(name)}: `schema` is the JSON schema of the arguments")
    examples = value.get("examples") or ()
    if not isinstance(examples, Sequence) or isinstance(examples, str):
        return Unreadable(f"{_short(name)}: `examples` is a list of {{arguments, result}}")
    read = [_example(example) for example in examples]
    bad = next((example for example in read if isinstance(example, Unreadable)), None)
    if bad is not None:
        return Unreadable(f"{_short(name)}: {bad.problem}")
    return ToolDraft(
        name=name.strip(),
        # Blank lines around it would give the same tool another hash.
        code=code.replace("\r\n", "\n").strip("\n") + "\n",
        parameters=dict(schema),
        examples=tuple(example for example in read if isinstance(example, ToolExample)),
    )


def drafted(needed: NeededTool) -> ToolDraft | Unreadable:
    """A tool that a worker's result asks for; what it says of the tool becomes the schema's."""
    if not is_encodable(needed.model_dump(mode="python")):
        return Unreadable("a tool holds half of a character (a lone surrogate)")
    schema = needed.parameters
    if needed.description and schema and "description" not in schema:
        schema = {**schema, "description": needed.description}
    return read_draft(
        {
            "name": needed.name,
            "code": needed.code,
            "schema": schema,
            "examples": list(needed.examples),
        }
    )


class Wanted(NamedTuple):
    """The drafts in a worker's result, and what is wrong with those that are none."""

    drafts: tuple[ToolDraft, ...]
    problems: tuple[str, ...]


def size_problem(draft: ToolDraft) -> str | None:
    """What of a draft is larger than a tool may be, as a sentence, or None."""
    sizes = (
        ("the code", len(draft.code), CODE_CHARACTERS),
        ("the schema", _length(draft.parameters), SCHEMA_CHARACTERS),
        *(
            ("an example", _length([example.arguments, example.result]), EXAMPLE_CHARACTERS)
            for example in draft.examples
        ),
    )
    for what, size, most in sizes:
        if size > most:
            return f"{what} has {size:,} characters; at most {most:,} are taken"
    if len(draft.examples) > EXAMPLES:
        return f"there are {len(draft.examples)} examples; at most {EXAMPLES} are taken"
    return None


def _example(value: object) -> ToolExample | Unreadable:
    if not isinstance(value, Mapping):
        return Unreadable("an example is an object with arguments and result")
    arguments = _first(value, _ARGUMENTS)
    result = _first(value, _RESULT)
    if not isinstance(arguments, Mapping):
        return Unreadable("an example needs `arguments`, an object")
    if result is not None and not isinstance(result, Mapping):
        return Unreadable("the `result` of an example is an object, as the handler returns")
    return ToolExample(arguments=dict(arguments), result=None if result is None else dict(result))


def _first(value: Mapping[str, JsonValue], names: Sequence[str]) -> JsonValue:
    return next((value[name] for name in names if name in value), None)


def _length(value: JsonValue | Sequence[JsonValue]) -> int:
    return len(json.dumps(value, separators=(",", ":")))


def is_encodable(value: object) -> bool:
    """Whether everything in a value can be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(name: str) -> str:
    return name.strip()[:NAME_CHARACTERS]
