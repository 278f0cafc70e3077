"""What a killed worker cost a run, read from the journal before and after."""

from collections import Counter
from collections.abc import Sequence

from perdure.domain.budget.journal import AttemptRow
from perdure.domain.foundation.base import FrozenModel
from perdure.interfaces.services import Killed


class ChaosReport(FrozenModel):
    """Nothing answered may be missing afterwards, and nothing answered may be paid for again."""

    run: str
    killed: Killed
    back_after_s: float
    answered_before: int
    kept: int
    paid_again: int
    lost_attempts: int
    made_again: int = 0
    outcome: str

    @property
    def nothing_lost(self) -> bool:
        """Whether every reply from before the kill still counts, and was paid for once."""
        return self.kept == self.answered_before and self.paid_again == 0


def compare(
    before: Sequence[AttemptRow],
    after: Sequence[AttemptRow],
    *,
    run: str,
    killed: Killed,
    back_after_s: float,
    outcome: str,
) -> ChaosReport:
    """Compare the journal of a run from before the kill with that of its end."""
    answered = _answered(before)
    attempts_before = Counter(row.key for row in before if row.key in answered)
    attempts_after = Counter(row.key for row in after if row.key in answered)
    return ChaosReport(
        run=run,
        killed=killed,
        back_after_s=round(back_after_s, 1),
        answered_before=len(answered),
        kept=len(answered & _answered(after)),
        paid_again=(attempts_after - attempts_before).total(),
        lost_attempts=sum(row.state == "lost" for row in after),
        made_again=sum(row.state == "lost" for row in after)
        - sum(row.state == "lost" for row in before),
        outcome=outcome,
    )


def _answered(rows: Sequence[AttemptRow]) -> set[str]:
    return {row.key for row in rows if row.state == "answered"}
