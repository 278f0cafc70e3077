"""A loop definition as its author writes it: the stages of an iteration, and when it ends."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from perdure.domain.budget.accounting import MAX_ITERATIONS
from perdure.domain.evaluation.termination_conditions import (
    Condition,
    Confidence,
    Degradation,
    EvaluationBound,
    NoImprovement,
    leaves,
)
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import repeated
from perdure.domain.roles.short_form import REVIEW_CRITERIA, written_out
from perdure.domain.tools.definitions import AccessLevel, ToolDefinition

MAX_NAME = 64
MAX_STAGES = 32
MOST_CHOICES = 50
DEFAULT_ACCESS: AccessLevel = "readonly"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Stages give no scores: the first two conditions would never hold, and the third always would.
_SCORED = (Confidence, Degradation, NoImprovement)

OnQuestion = Literal["block", "default"]
Capability = Literal[
    "artifacts", "todos", "sprint", "projects", "skills", "memory", "web", "shell", "delegation"
]
ModelNames = str | tuple[str, ...]
Share = Annotated[float, Field(gt=0, le=1)]


Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


def text_of(value: JsonValue) -> str:
    """A parameter's value as it is put into texts."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def named_well(value: str) -> str:
    """Check the name of a definition or role file; raises `ValueError`."""
    if not NAME.fullmatch(value) or len(value) > MAX_NAME:
        raise ValueError(
            "a lower-case letter or digit, then lower-case letters, digits, '-' and '_', "
            f"{MAX_NAME} characters at most"
        )
    return value


class Parameter(FrozenModel):
    """A value that whoever starts the loop gives; `{{name}}` stands for it.

    Without a default it is required. Where there are `choices`, its value is one of them.
    """

    name: str
    description: str = ""
    required: bool = True
    default: JsonValue = None
    # Left out where there are none: workers of an older version read snapshots too.
    choices: tuple[str | int | float | bool, ...] = Field(
        default=(), max_length=MOST_CHOICES, exclude_if=lambda choices: not choices
    )

    @model_validator(mode="before")
    @classmethod
    def _optional_with_default(cls, value: object) -> object:
        if not isinstance(value, dict) or "required" in value:
            return value
        return {**value, "required": value.get("default") is None}

    @field_validator("name")
    @classmethod
    def _identifier(cls, value: str) -> str:
        if not _IDENTIFIER.fullmatch(value) or len(value) > MAX_NAME:
            raise ValueError("an identifier: letters, digits and '_', no digit at the beginning")
        return value

    @field_validator("default")
    @classmethod
    def _given_when_optional(cls, value: JsonValue, info: ValidationInfo) -> JsonValue:
        if value is None and info.data.get("required") is False:
            raise ValueError("a default, since the parameter is not required")
        return value

    @model_validator(mode="after")
    def _has_default(self) -> "Parameter":
        # Here again, since the check of the field does not see a default that was left out.
        if not self.required and self.default is None:
            raise ValueError("a parameter that is not required needs a default")
        return self

    @model_validator(mode="after")
    def _one_of_its_choices(self) -> "Parameter":
        if self.default is not None and not self.allows(self.default):
            raise ValueError(f"a default out of {', '.join(self.chosen_from)}")
        return self

    @property
    def chosen_from(self) -> tuple[str, ...]:
        """The choices as they are put into texts."""
        return tuple(text_of(one) for one in self.choices)

    def allows(self, value: JsonValue) -> bool:
        return not self.choices or text_of(value) in self.chosen_from


class NestedLoop(FrozenModel):
    """A loop that a stage runs as a child run; its goal is the stage's prompt.

    `definition` names the loop definition of kind `roles`; a delegation has none.
    """

    kind: Literal["roles", "delegation"] = "roles"
    definition: str | None = None
    parameters: dict[str, JsonValue] = {}
    max_iterations: int | None = Field(default=None, ge=1, le=MAX_ITERATIONS)

    @model_validator(mode="after")
    def _named_for_roles(self) -> "NestedLoop":
        if (self.kind == "roles") != (self.definition is not None):
            raise ValueError("the name of a definition for kind roles, and none for delegation")
        return self


def _loop_by_name(value: object) -> object:
    return {"definition": value} if isinstance(value, str) else value


def _as_written(schema: dict[str, JsonValue]) -> None:
    """The schema of a role as an author may write it: one name is enough, a loop may be named."""
    schema["required"] = ["prompt"]
    schema["anyOf"] = [{"required": [name]} for name in ("role", "name", "loop")]
    properties = schema["properties"]
    if isinstance(properties, dict) and isinstance(loop := properties["loop"], dict):
        forms = loop.get("anyOf")
        loop["anyOf"] = [*(forms if isinstance(forms, list) else ()), {"type": "string"}]


class RoleDefinition(FrozenModel):
    """One stage of an iteration: who works, on what, with which access.

    What stays None or empty here is taken from the role's file when the run starts. `budget` is
    the share of the run's budget that the stage may use over all iterations. `tools` narrows what
    the access level offers; names may end in `*`.
    """

    model_config = ConfigDict(json_schema_extra=_as_written)

    name: Text
    role: Text
    prompt: Text
    order: int | None = Field(default=None, ge=-MAX_ITERATIONS, le=MAX_ITERATIONS)
    access: AccessLevel | None = None
    model: ModelNames | None = None
    tools: tuple[str, ...] | None = None
    system: str = ""
    gate: bool = False
    budget: Share | None = None
    on_question: OnQuestion = "block"
    loop: Annotated[NestedLoop | None, BeforeValidator(_loop_by_name)] = None

    @model_validator(mode="before")
    @classmethod
    def _name_or_role(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        loop = value.get("loop")
        nested = loop.get("definition") or loop.get("kind") if isinstance(loop, dict) else loop
        name = value.get("name") or value.get("role") or nested
        role = value.get("role") or value.get("name") or nested
        return value if name is None else {**value, "name": name, "role": role}

    @field_validator("name", "role")
    @classmethod
    def _well_named(cls, value: str) -> str:
        return named_well(value)

    @field_validator("model")
    @classmethod
    def _some_model(cls, value: ModelNames | None) -> ModelNames | None:
        if value is not None and (not value or not all(value)):
            raise ValueError("the name of a model, or a list of names")
        return value

    @model_validator(mode="after")
    def _no_agent_when_nested(self) -> "RoleDefinition":
        if self.loop is None:
            return self
        # A loop has these from its own stages; a delegation takes its access from here.
        of_roles = ("gate", "model", "tools", "system")
        own = of_roles if self.loop.kind == "delegation" else ("access", *of_roles)
        if wrong := [name for name in own if getattr(self, name) not in (None, "", False)]:
            words = ", ".join(wrong)
            raise ValueError(f"{words} on a stage with a role, not on one that runs a loop")
        return self

    @property
    def models(self) -> tuple[str, ...]:
        """The stage's own models in order of preference; empty for the run's."""
        return (self.model,) if isinstance(self.model, str) else self.model or ()


def _add_short_form(schema: dict[str, JsonValue]) -> None:
    """The schema of a loop as an author may write it: a condition may have its short form."""
    short: JsonValue = {
        "type": "object",
        "properties": {"type": {"type": "string"}, "value": {}},
        "required": ["type", "value"],
        "additionalProperties": False,
    }
    properties = schema["properties"]
    if isinstance(properties, dict):
        condition = properties["termination_condition"]
        properties["termination_condition"] = {"anyOf": [condition, short]}


class LoopDefinition(FrozenModel):
    """A loop of roles. `roles` is in the order in which the stages run.

    Without a condition the last stage's review decides, by criteria that are assumed.
    """

    model_config = ConfigDict(json_schema_extra=_add_short_form)

    name: str
    description: str = ""
    roles: tuple[RoleDefinition, ...] = Field(min_length=1, max_length=MAX_STAGES)
    termination_condition: Condition = EvaluationBound(
        type="evaluation_bound", criteria=REVIEW_CRITERIA
    )
    parameters: tuple[Parameter, ...] = ()
    requires: tuple[Capability, ...] = ()

    @field_validator("name")
    @classmethod
    def _well_named(cls, value: str) -> str:
        return named_well(value)

    @field_validator("roles")
    @classmethod
    def _sorted_by_order(cls, value: tuple[RoleDefinition, ...]) -> tuple[RoleDefinition, ...]:
        wrong = [*_order_faults(value), *_stage_faults(value)]
        if wrong:
            raise ValueError("; ".join(wrong))
        return tuple(sorted(value, key=lambda role: role.order or 0))

    @field_validator("termination_condition", mode="before")
    @classmethod
    def _long_form(cls, value: object) -> object:
        return written_out(value)

    @field_validator("termination_condition")
    @classmethod
    def _without_scores(cls, value: Condition) -> Condition:
        scored = [leaf.type for leaf in leaves(value) if isinstance(leaf, _SCORED)]
        if scored:
            raise ValueError(f"a condition that needs no scores, which {scored[0]} does")
        return value

    @field_validator("parameters")
    @classmethod
    def _named_once(cls, value: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
        twice = repeated([parameter.name for parameter in value])
        if twice:
            raise ValueError(f"each name once (more than once: {', '.join(twice)})")
        return value

    @property
    def review_stage(self) -> RoleDefinition:
        """The stage whose verdict counts: the one that is marked, else the last."""
        return next((role for role in self.roles if role.gate), self.roles[-1])

    @property
    def criteria(self) -> str:
        """What the gate stage approves by; empty when no verdict is asked for."""
        found = (
            leaf.criteria
            for leaf in leaves(self.termination_condition)
            if isinstance(leaf, EvaluationBound)
        )
        return next(found, "")

    @property
    def assumes_criteria(self) -> bool:
        """Whether the criteria are those that stand in for missing ones."""
        return self.criteria == REVIEW_CRITERIA


class LoopSnapshot(FrozenModel):
    """A definition as one run uses it: parameters put in, role files read, versions fixed.

    `nested` holds the loops that stages run, by the name of the stage.
    """

    definition: LoopDefinition
    version: str
    parameters: dict[str, str] = {}
    nested: dict[str, "LoopSnapshot"] = {}


def _order_faults(roles: Sequence[RoleDefinition]) -> list[str]:
    given = [role.order for role in roles if role.order is not None]
    if given and len(given) < len(roles):
        without = ", ".join(role.name for role in roles if role.order is None)
        return [f"an order for every role or for none (missing: {without})"]
    twice = repeated([str(number) for number in given])
    return [f"each order once (more than once: {', '.join(twice)})"] if twice else []


def _stage_faults(roles: Sequence[RoleDefinition]) -> list[str]:
    wrong: list[str] = []
    # Prompts, scripts and records tell stages apart by their names.
    twice = repeated([role.name for role in roles])
    if twice:
        wrong.append(f"each name once, set `name` (more than once: {', '.join(twice)})")
    gates = [role.name for role in roles if role.gate]
    if len(gates) > 1:
        wrong.append(f"at most one gate (found: {', '.join(gates)})")
    shares = sum(role.budget or 0 for role in roles)
    # Shares that add up to 1 on paper may be a hair above it in floats.
    if shares > 1 + 1e-9:
        wrong.append(f"budget shares of at most 1 together (found: {shares:g})")
    return wrong


_TOOLS: Mapping[Capability, str] = {
    "artifacts": "artifact.",
    "todos": "todo.",
    "sprint": "sprint.",
    "projects": "sprint.",
    "skills": "skill.",
    "memory": "memory.",
    "web": "web.",
    "shell": "shell.full",
}


def capabilities(tools: Collection[str], kinds: Collection[str]) -> frozenset[Capability]:
    """The capabilities behind these names of tools and kinds of loops."""
    found: set[Capability] = {
        capability
        for capability, start in _TOOLS.items()
        if any(name.startswith(start) for name in tools)
    }
    if "delegation" in kinds:
        found.add("delegation")
    return frozenset(found)


def required_by(snapshot: LoopSnapshot) -> dict[str, tuple[str, ...]]:
    """What a definition and those inside it require, by the place that requires it."""
    found: dict[str, tuple[str, ...]] = {}
    waiting = [snapshot]
    while waiting:
        one = waiting.pop(0)
        if one.definition.requires:
            found[f"{one.definition.name}.requires"] = tuple(one.definition.requires)
        waiting += one.nested.values()
    return found


def unusable_reasons(
    required: Mapping[str, Sequence[str]], tools: Sequence[ToolDefinition]
) -> dict[str, str]:
    """Why a worker with these tools cannot do what is required, by the place that requires it.

    If none of a capability's tools is known here, the interface refuses it, not the worker: an
    older worker may name the capability differently.
    """
    found: dict[str, str] = {}
    for place, capabilities_asked in required.items():
        for capability, start in _TOOLS.items():
            if capability not in capabilities_asked:
                continue
            behind = [tool for tool in tools if tool.name.startswith(start)]
            if behind and all(tool.unavailable for tool in behind):
                why = f"{capability} cannot be used on this worker: {behind[0].unavailable}"
                found[place] = "; ".join(filter(None, (found.get(place), why)))
    return found
