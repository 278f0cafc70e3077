"""JSON Schemas of inputs and outputs, generated from the models."""

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, JsonValue, TypeAdapter

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.roles.definition import LoopDefinition
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.run.events import Event
from perdure.domain.run.live_text import LivePart
from perdure.domain.run.result import RunResult
from perdure.domain.run.status import RunStatus
from perdure.domain.specs import RUN_SPEC

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SUFFIX = ".schema.json"
INPUTS = {
    "agent": AgentSpec,
    "refine": RefineSpec,
    "roles": RolesSpec,
    "delegation": DelegationSpec,
    "loop-definition": LoopDefinition,
}
OUTPUTS = {"result": RunResult, "status": RunStatus, "event": Event, "stream": LivePart}

Schema = dict[str, JsonValue]
Models = Mapping[str, type[BaseModel]]


def schemas(more: Models | None = None) -> dict[str, Schema]:
    """All schemas by name; `run` is any specification.

    Args:
        more: file formats that adapters bring, such as the script of the scripted model.
    """
    found: dict[str, Schema] = {"run": RUN_SPEC.json_schema(mode="validation")}
    for name, model in {**INPUTS, **(more or {})}.items():
        found[name] = TypeAdapter(model).json_schema(mode="validation")
    for name, model in OUTPUTS.items():
        found[name] = TypeAdapter(model).json_schema(mode="serialization")
    return {name: {"$schema": DIALECT, **schema} for name, schema in sorted(found.items())}


def schema_of(name: str, more: Models | None = None) -> Schema:
    """One schema.

    Raises:
        InvalidInput: there is none of that name.
    """
    known = schemas(more)
    if name not in known:
        hint = did_you_mean(name, known)
        raise InvalidInput(
            f"There is no schema {name!r}.{hint}", cure=f"There are {', '.join(known)}."
        )
    return known[name]


def text_of(schema: Schema) -> str:
    """A schema as the text of a file; the same models give the same text."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write_schemas(folder: Path, more: Models | None = None) -> list[Path]:
    """Write every schema to `NAME.schema.json`; delete files of schemas that are gone."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in _left_over(folder, more):
        path.unlink()
    paths = [folder / f"{name}{SUFFIX}" for name in schemas(more)]
    for path, schema in zip(paths, schemas(more).values(), strict=True):
        path.write_text(text_of(schema), encoding="utf-8")
    return paths


def stale_schemas(folder: Path, more: Models | None = None) -> list[str]:
    """Problems of a folder of schemas, as sentences; empty if it is up to date."""
    said = [f"{path} belongs to no schema any more" for path in _left_over(folder, more)]
    for name, schema in schemas(more).items():
        path = folder / f"{name}{SUFFIX}"
        if not path.is_file():
            said.append(f"{path} is missing")
        elif path.read_text(encoding="utf-8") != text_of(schema):
            said.append(f"{path} differs from the models")
    return said


def _left_over(folder: Path, more: Models | None) -> list[Path]:
    names = {f"{name}{SUFFIX}" for name in schemas(more)}
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if path.name not in names)
