"""What one check says of one text, and how the answer of foreign code becomes that."""

from perdure.check_decorator import CheckFailed, CheckResult
from perdure.domain.evaluation.trajectory import is_score

__all__ = ["PASSED", "CheckFailed", "CheckResult", "result_of"]

PASSED = CheckResult(score=1.0)
SHOWN_CHARACTERS = 400


def result_of(value: object) -> CheckResult:
    """Read a truth value, a score, or a score with words.

    Raises:
        CheckFailed: it is none of these, or the score is not between 0 and 1.
    """
    match value:
        case CheckResult():
            score, detail, fix = value.score, value.detail, value.fix
        case (score, str() as detail):
            fix = ""
        case _:
            score, detail, fix = value, "", ""
    if not isinstance(score, bool | int | float) or not is_score(score):
        found = repr(value)[:SHOWN_CHARACTERS]
        raise CheckFailed(
            f"the check gave {found}, which is no score.",
            cure="Return True, False, a number from 0 to 1, or such a number with words.",
        )
    said = detail or f"the check is not met (score {float(score):g})"
    return CheckResult(float(score), "" if score >= 1 else said[:SHOWN_CHARACTERS], fix)
