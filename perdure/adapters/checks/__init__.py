"""Runs the checks of a text, with patterns in linear time and Python in a sandbox."""

from perdure.adapters.checks.builtin_checks import run_check
from perdure.adapters.checks.rubric import (
    RubricChecks,
    check_problems,
    evaluate_checks,
    schema_problem,
)
from perdure.extending.check_decorator import CheckFailed, CheckResult

__all__ = [
    "CheckFailed",
    "CheckResult",
    "RubricChecks",
    "check_problems",
    "evaluate_checks",
    "run_check",
    "schema_problem",
]
