"""What one check says of one text."""

from dataclasses import dataclass

from perdure.domain.errors import PerdureError


class CheckFailed(PerdureError):
    """A check could not be run: that is no score."""

    code = "check_failed"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A score from 0 to 1; below 1.0, what was found against what is allowed, and the fix."""

    score: float
    detail: str = ""
    fix: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything that the check demands is there."""
        return self.score >= 1.0


PASSED = CheckResult(score=1.0)
