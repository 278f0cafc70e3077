"""Runs deterministic checks on outputs; patterns run on a linear-time engine."""

from perdure.adapters.checks.rubric import check_problems, evaluate_checks
from perdure.adapters.checks.run import CheckFailed, CheckResult, run_check

__all__ = ["CheckFailed", "CheckResult", "check_problems", "evaluate_checks", "run_check"]
