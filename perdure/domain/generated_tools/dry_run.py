"""One run of a handler in the sandbox, what came of it, and what the last two checks make of that.

The sandbox is the boundary: it has no files, network, environment, processes or other tools.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from perdure.domain.generated_tools.draft import ToolExample
from perdure.domain.generated_tools.rejections import Category, Stage, ToolRefused, refused
from perdure.domain.generated_tools.result_limits import same

_BY_TYPE: dict[str, JsonValue] = {
    "string": "",
    "integer": 0,
    "number": 0,
    "boolean": False,
    "null": None,
}


def synthetic_arguments(parameters: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """One value for each property: its declared default, else its first enum, else by its type."""
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {name: synthetic_value(schema) for name, schema in properties.items()}


def synthetic_value(schema: JsonValue) -> JsonValue:
    """The plainest value of a schema: "", 0, false, [] or {} where it declares nothing."""
    if not isinstance(schema, Mapping):
        return None
    if "default" in schema:
        return schema["default"]
    options = schema.get("enum")
    if isinstance(options, list) and options:
        return options[0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind == "array":
        return []
    if kind == "object":
        return {}
    return _BY_TYPE.get(kind) if isinstance(kind, str) else None


TRIAL_SECONDS = 5.0
SHOWN = 200


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned an object."""

    value: dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Raised:
    """The code raised; `deliberate` when its own `raise` or `assert` did so."""

    kind: str
    message: str
    deliberate: bool = False

    @property
    def words(self) -> str:
        """Kind and message in one line."""
        return f"{self.kind}: {self.message}".rstrip(": ")[:SHOWN]

    @property
    def refusal(self) -> bool:
        """Whether this is how a tool says no to its input."""
        return self.kind != "NotImplementedError" and (self.deliberate or self.kind == "ValueError")


@dataclass(frozen=True, slots=True)
class Crashed:
    """There is no result: a limit was passed, the interpreter ended, or it gave no object."""

    why: str


Trial = Returned | Raised | Crashed


class ToolSandbox(Protocol):
    """Runs the code of made tools, each call in an interpreter that nothing else has used."""

    async def run(
        self, code: str, handler: str, arguments: Mapping[str, JsonValue], *, seconds: float
    ) -> Trial:
        """Execute `code` as it is, then call its handler; never raises for what code does."""
        ...


def check_smoke(example: ToolExample, trial: Trial) -> ToolRefused | None:
    """Why a declared example shows that the tool is wrong, or None."""
    call = f"the example {_shown(example.arguments)}"
    match trial:
        case Returned(value=value):
            if example.result is None or same(value, example.result):
                return None
            told = f"{call} gave {_shown(value)} instead of {_shown(example.result)}"
            return _refused("smoke", "smoke", told)
        case Raised():
            return _refused("smoke", "smoke", f"{call} ended with {trial.words}")
        case Crashed(why=why):
            return _refused("smoke", "smoke", f"{call}: {why}")


def check_dry_run(arguments: Mapping[str, JsonValue], trial: Trial) -> ToolRefused | None:
    """Why plain inputs show that the tool cannot be offered, or None; a refusal of them is fine."""
    call = f"called with {_shown(arguments)}"
    match trial:
        case Returned():
            return None
        case Raised(refusal=True):
            return None
        case Raised():
            told = f"{call} it crashed with {trial.words}; raise ValueError for input it refuses"
            return _refused("dry_run", "dry_run", told)
        case Crashed(why=why):
            return _refused("dry_run", "dry_run", f"{call}: {why}")


def _refused(stage: Stage, category: Category, message: str) -> ToolRefused:
    return refused(stage, 422, category, message)


def _shown(value: Mapping[str, JsonValue]) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
