"""Who or what evaluates a dimension: a judge, a check, a program, or a person."""

from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Field, Tag

from perdure.domain.evaluation.checks import (
    PURE_KINDS,
    ContainsCheck,
    EqualsCheck,
    JsonSchemaCheck,
    LengthCheck,
    PluginCheck,
    PythonCheck,
    RegexCheck,
    is_plugin_name,
)
from perdure.domain.evaluation.program_checks import (
    VERIFIED_KINDS,
    CommandCheck,
    LintCheck,
    TestsCheck,
)
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.problems import format_value, nearest_name

CHECK_KINDS = (*PURE_KINDS, *VERIFIED_KINDS)
PROMPT_CHARACTERS = 2_000


class JudgeParameters(FrozenModel):
    """Which model judges; without one, the evaluator of the run. The description says the rest."""

    # Left out while it is None: a rubric without it keeps its digest over versions.
    model: str | None = Field(default=None, min_length=1, exclude_if=lambda model: model is None)


class JudgeEvaluator(FrozenModel):
    """A model call in its own context scores the dimension."""

    judge: JudgeParameters


class HumanParameters(FrozenModel):
    """What the person is asked, beside the dimension's description."""

    prompt: str = Field(default="", max_length=PROMPT_CHARACTERS)


class HumanEvaluator(FrozenModel):
    """A person scores the dimension, at a gate."""

    human: HumanParameters


def _tag(value: object) -> str:
    if isinstance(value, JudgeEvaluator):
        return "as_judge"
    if isinstance(value, HumanEvaluator):
        return "as_human"
    if isinstance(value, dict):
        if "judge" in value or "human" in value:
            return "as_judge" if "judge" in value else "as_human"
        kind = value.get("check")
    else:
        kind = getattr(value, "check", None)
    # Names that look like a misspelt check of ours never come here: `_known_kind` refuses them.
    return str(kind) if kind in CHECK_KINDS else "plugin"


def _known_kind(value: object) -> object:
    """Refuse what cannot be evaluated, before the union gives a less helpful answer."""
    if not isinstance(value, dict):
        return value
    named = [kind for kind in ("judge", "human", "check") if kind in value]
    if len(named) > 1:
        raise ValueError(
            f"one of them, not {' and '.join(named)} at once; add a dimension for each"
        )
    if named and named != ["check"]:
        return value
    kind = value.get("check", next(iter(value), None))
    if "check" in value and (kind in CHECK_KINDS or may_be_plugin(kind)):
        return value
    allowed = f"judge: {{}}, human: {{}}, or check: one of {', '.join(CHECK_KINDS)}, or a plugin"
    near = nearest_name(str(kind), (*CHECK_KINDS, "judge", "human"))
    raise ValueError(
        f"{allowed} ({format_value(kind)} cannot be evaluated"
        f"{f'; did you mean {near}?' if near else ''})"
    )


def may_be_plugin(kind: object) -> bool:
    """Whether a name may be that of a plugin: not when it looks like a misspelt check of ours."""
    if not is_plugin_name(kind):
        return False
    return "." in kind or nearest_name(kind, (*CHECK_KINDS, "judge", "human")) is None


Evaluator = Annotated[
    Annotated[JudgeEvaluator, Tag("as_judge")]
    | Annotated[HumanEvaluator, Tag("as_human")]
    | Annotated[ContainsCheck, Tag("contains")]
    | Annotated[RegexCheck, Tag("regex")]
    | Annotated[LengthCheck, Tag("length")]
    | Annotated[JsonSchemaCheck, Tag("json_schema")]
    | Annotated[EqualsCheck, Tag("equals")]
    | Annotated[PythonCheck, Tag("python")]
    | Annotated[CommandCheck, Tag("command")]
    | Annotated[TestsCheck, Tag("tests")]
    | Annotated[LintCheck, Tag("lint")]
    | Annotated[PluginCheck, Tag("plugin")],
    Discriminator(_tag),
    BeforeValidator(_known_kind),
]
