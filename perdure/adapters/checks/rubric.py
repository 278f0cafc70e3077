"""Runs all checks of a rubric on an output, and reports defects by part."""

from perdure.adapters.checks.patterns import compile_pattern
from perdure.adapters.checks.result import CheckFailed, CheckResult
from perdure.adapters.checks.run import run_check
from perdure.adapters.checks.schemas import prepare_schema
from perdure.domain.checks import Check, JsonSchemaCheck, RegexCheck
from perdure.domain.evaluation import DimensionScore, Finding
from perdure.domain.problems import Problem
from perdure.domain.refine.parts import part_text
from perdure.domain.rubric import Dimension, JudgeEvaluator, Rubric


def evaluate_checks(rubric: Rubric, output: str) -> tuple[DimensionScore, ...]:
    """Score every dimension that code evaluates, in the order of the rubric.

    A dimension bound to a part sees that line alone. A check that cannot be run gives no score.
    """
    return tuple(
        _evaluate(dimension, dimension.evaluator, output)
        for dimension in rubric.dimensions
        if not isinstance(dimension.evaluator, JudgeEvaluator)
    )


def check_problems(rubric: Rubric, *, root: str = "rubric") -> tuple[Problem, ...]:
    """Patterns and schemas of a rubric that cannot be used, found before a run starts."""
    found: list[Problem] = []
    for index, dimension in enumerate(rubric.dimensions):
        path = f"{root}[{index}].evaluator"
        try:
            match dimension.evaluator:
                case RegexCheck(pattern=pattern):
                    compile_pattern(pattern)
                case JsonSchemaCheck(schema_=schema):
                    prepare_schema(schema)
                case _:
                    pass
        except CheckFailed as error:
            allowed = error.cure.rstrip(".") or "a valid JSON schema"
            found.append(Problem(path=path, found=error.message.rstrip("."), allowed=allowed))
    return tuple(found)


def _evaluate(dimension: Dimension, check: Check, output: str) -> DimensionScore:
    text = output if dimension.part is None else part_text(output, dimension.part)
    where = f"line {dimension.part}: " if dimension.part is not None else ""
    try:
        result = run_check(check, text)
    except CheckFailed as error:
        return DimensionScore(
            name=dimension.name, score=None, source="check", gap=f"could not be checked: {error}"
        )
    if result.passed:
        return DimensionScore(name=dimension.name, score=1.0, source="check")
    detail = "the line is missing" if dimension.part is not None and not text else result.detail
    return DimensionScore(
        name=dimension.name,
        score=result.score,
        source="check",
        gap=where + detail,
        findings=(_finding(dimension, result, where=where, detail=detail),),
    )


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
