"""Runs all checks of a rubric on an output, and reports defects by part."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from pydantic import JsonValue

from perdure.adapters.checks.builtin_checks import result_of, run_check, words_of
from perdure.adapters.checks.patterns import compile_pattern
from perdure.adapters.checks.schemas import UNSUPPORTED, prepare_schema
from perdure.adapters.files.disk import disk_errors
from perdure.adapters.logging.redacting import without_secrets
from perdure.adapters.sandbox.python_sandbox import SnippetFailed, SnippetRunner
from perdure.domain.evaluation.checks import (
    ActivityCheck,
    ActivityVerdict,
    Check,
    EqualsCheck,
    JsonSchemaCheck,
    PluginCheck,
    PythonCheck,
    RegexCheck,
    Snippet,
)
from perdure.domain.evaluation.rubric import Dimension, PartKind, Rubric, name_problems
from perdure.domain.evaluation.scores import DimensionScore, Finding
from perdure.domain.foundation.errors import LOAD_PLUGIN, StoreAway
from perdure.domain.foundation.json_extraction import to_encodable
from perdure.domain.foundation.problems import Problem
from perdure.domain.outputs.parts import part_label, part_text
from perdure.domain.tools.definitions import HANDED_OVER_BYTES
from perdure.extending.check_decorator import CheckFailed, CheckResult, CustomCheck
from perdure.extending.foreign_code import CodeEnded, contained

T = TypeVar("T")
PATTERNS = "RE2 syntax, without look-around and back-references"
SCHEMAS = f"a JSON schema of draft 2020-12 without {', '.join(UNSUPPORTED)}; patterns in {PATTERNS}"
_NOUNS: dict[PartKind, str] = {"sections": "section", "json_keys": "key"}


class RubricChecks:
    """The port `CheckRunner`: built-in checks, Python of a rubric, checks of plugins.

    Args:
        snippets: runs Python checks; without it they cannot run.
        plugins: checks of other packages by name.
    """

    def __init__(
        self,
        *,
        snippets: SnippetRunner | None = None,
        plugins: Mapping[str, CustomCheck] | None = None,
    ) -> None:
        self._snippets = snippets
        self._plugins = plugins or {}

    @property
    def plugin_names(self) -> tuple[str, ...]:
        return tuple(sorted(self._plugins))

    def evaluate(
        self,
        rubric: Rubric,
        output: str,
        parts: PartKind = "lines",
        *,
        adaptation: Mapping[str, JsonValue] | None = None,
    ) -> tuple[DimensionScore, ...]:
        """Score every dimension that a check of the text evaluates, in the order of the rubric.

        A dimension of a part sees only that part. A check that cannot run gives no score.
        """
        values = adaptation or {}
        return tuple(
            _scored(
                dimension,
                _text_of(dimension, check, output, parts),
                parts,
                lambda text, check=check: self._run(check, text, values),
            )
            for dimension in rubric.dimensions
            if (check := dimension.pure_check) is not None
        )

    def activities(
        self,
        rubric: Rubric,
        output: str,
        parts: PartKind = "lines",
        *,
        adaptation: Mapping[str, JsonValue] | None = None,
    ) -> tuple[ActivityCheck, ...]:
        """The checks to schedule as foreign activities; `evaluate` reports those that cannot be."""
        found: list[ActivityCheck] = []
        for dimension in rubric.dimensions:
            if isinstance(check := dimension.pure_check, PluginCheck):
                text = _text_of(dimension, check, output, parts)
                with suppress(CheckFailed):
                    found.extend(self._activity(dimension.name, check, text, adaptation or {}))
        return tuple(found)

    def judged(
        self,
        rubric: Rubric,
        output: str,
        parts: PartKind = "lines",
        *,
        verdicts: Mapping[str, ActivityVerdict],
    ) -> tuple[DimensionScore, ...]:
        """The scores of the dimensions for which foreign activities returned verdicts."""
        return tuple(
            _scored(
                dimension,
                _text_of(dimension, check, output, parts),
                parts,
                lambda _, name=dimension.name: _result_of_activity(verdicts[name]),
            )
            for dimension in rubric.dimensions
            if (check := dimension.pure_check) is not None and dimension.name in verdicts
        )

    def _activity(
        self, dimension: str, check: PluginCheck, text: str, adaptation: Mapping[str, JsonValue]
    ) -> Iterator[ActivityCheck]:
        custom = self._plugins.get(check.check)
        if custom is None or custom.activity is None:
            return
        with contained():
            given = custom.arguments(text, check.parameters, adaptation)
        size = len(json.dumps(given, ensure_ascii=False).encode())
        if size > HANDED_OVER_BYTES:
            raise CheckFailed(
                f"the check {custom.name} is an activity of a worker of its own, which takes at "
                f"most {HANDED_OVER_BYTES:,} bytes; the output and its parameters take {size:,}"
            )
        yield ActivityCheck(
            dimension=dimension,
            check=custom.name,
            activity=custom.activity.target,
            timeout_s=custom.activity.timeout_s,
            arguments=given,
        )

    def _run(self, check: Check, text: str, adaptation: Mapping[str, JsonValue]) -> CheckResult:
        match check:
            case PythonCheck(snippet=snippet):
                return self._python(snippet, text, adaptation)
            case PluginCheck():
                return self._plugin(check, text, adaptation)
            case _:
                return run_check(check, text)

    def _python(
        self, snippet: Snippet, text: str, adaptation: Mapping[str, JsonValue]
    ) -> CheckResult:
        if self._snippets is None:
            raise CheckFailed("Python checks cannot be run here.", cure="Run it on a worker.")
        try:
            with disk_errors():
                value = self._snippets.verdict(snippet, text, adaptation)
        except SnippetFailed as failed:
            # Unlike a check that cannot run, code that fails on this output shows a defect of the
            # output: the code was written for it.
            return CheckResult(0.0, f"the Python check ended with {failed}")
        return result_of(value)

    def _plugin(
        self, check: PluginCheck, text: str, adaptation: Mapping[str, JsonValue]
    ) -> CheckResult:
        name = check.check
        found = self._plugins.get(name)
        if found is None:
            raise CheckFailed(
                f"no check named {name} is installed on this worker.", cure=LOAD_PLUGIN
            )
        if found.activity is not None:
            list(
                self._activity("", check, text, adaptation)
            )  # raises if its arguments are too large
            raise CheckFailed(f"the check {name} is an activity, which only a loop can run")
        try:
            with contained(), disk_errors():
                return result_of(found.verdict(text, check.parameters, adaptation))
        except (CheckFailed, StoreAway):
            raise  # a full disk is no fault of the output: the step waits
        except CodeEnded as ended:
            raise CheckFailed(f"the check {name} failed: {without_secrets(ended)}"[:400]) from ended
        except Exception as error:
            raise CheckFailed(
                f"the check {name} failed with {type(error).__name__}: {without_secrets(error)}"[
                    :400
                ]
            ) from error


def evaluate_checks(
    rubric: Rubric, output: str, parts: PartKind = "lines"
) -> tuple[DimensionScore, ...]:
    """The scores of the built-in checks, without Python and plugins."""
    return RubricChecks().evaluate(rubric, output, parts)


def check_problems(rubric: Rubric) -> tuple[Problem, ...]:
    """Names, patterns and schemas of a rubric that cannot be used, found before a run starts."""
    found = [*name_problems(rubric)]
    for index, dimension in enumerate(rubric.dimensions):
        path = f"rubric[{index}].evaluator"
        match dimension.evaluator:
            case RegexCheck(pattern=pattern):
                said = _refusal(compile_pattern, pattern)
                field, allowed = "pattern", PATTERNS
            case JsonSchemaCheck(schema_=schema):
                said = _refusal(prepare_schema, schema)
                field, allowed = "schema", SCHEMAS
            case _:
                continue
        if said is not None:
            found.append(Problem(path=f"{path}.{field}", found=said, allowed=allowed))
    return tuple(found)


def _refusal(prepare: Callable[[T], object], given: T) -> str | None:
    try:
        prepare(given)
    except CheckFailed as error:
        return error.message.rstrip(".")
    return None


def _scored(
    dimension: Dimension, text: str, parts: PartKind, run: Callable[[str], CheckResult]
) -> DimensionScore:
    part = dimension.part
    where = "" if part is None else f"{part_label(part)}: "
    try:
        result = run(text)
    except CheckFailed as error:
        gap = to_encodable(f"could not be checked: {error}")
        return DimensionScore(name=dimension.name, score=None, source="check", gap=gap)
    # Code of others may return half an emoji, which could not be stored.
    result = replace(result, detail=to_encodable(result.detail), fix=to_encodable(result.fix))
    if result.passed:
        return DimensionScore(name=dimension.name, score=1.0, source="check")
    missing = part is not None and not text
    detail = f"the {_NOUNS.get(parts, 'line')} is missing" if missing else result.detail
    return DimensionScore(
        name=dimension.name,
        score=result.score,
        source="check",
        gap=where + detail,
        findings=(_finding(dimension, result, where=where, detail=detail),),
    )


def _text_of(dimension: Dimension, check: Check, output: str, parts: PartKind) -> str:
    """The part of the output that a dimension evaluates, or all of it."""
    if dimension.part is None:
        return output
    return part_text(output, dimension.part, parts, as_json=_reads_json(check))


def _result_of_activity(verdict: ActivityVerdict) -> CheckResult:
    if verdict.failed:
        raise CheckFailed(verdict.failed[:400])
    match verdict.value:
        case [score, str() as detail]:
            return result_of((score, detail))
        case {"score": score, **others}:  # a `CheckResult` as JSON
            read = result_of((score, words_of(others.get("detail"))))
            return replace(read, fix=words_of(others.get("fix")))
        case value:
            return result_of(value)


def _reads_json(check: Check) -> bool:
    """Whether a check compares the value of a key as JSON, and not its text."""
    match check:
        case JsonSchemaCheck():
            return True
        case EqualsCheck(value=value):
            return not isinstance(value, str)
        case _:
            return False


def _finding(dimension: Dimension, result: CheckResult, *, where: str, detail: str) -> Finding:
    matters = dimension.decides or dimension.effective_weight > 0
    return Finding(
        id=f"check:{dimension.name}",
        severity="important" if matters else "suggestion",
        dimension=dimension.name,
        title=where + detail,
        detail=dimension.description,
        location=where.removesuffix(": "),
        fix=dimension.hint or result.fix,
        part=dimension.part,
    )


def schema_problem(schema: Mapping[str, JsonValue]) -> str:
    """Why a JSON schema of a task cannot be used; empty if it can."""
    try:
        prepare_schema(schema)
    except CheckFailed as error:
        return f"{error}; allowed: {SCHEMAS}"
    return ""
