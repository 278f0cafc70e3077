"""What killing a worker cost a run: its journal before the kill, compared with that at its end."""

from collections import Counter
from collections.abc import Sequence

from perdure.domain.budget.journal import AttemptRow
from perdure.domain.foundation.base import FrozenModel
from perdure.interfaces.services import Killed


class ChaosReport(FrozenModel):
    """A good report has no answered call missing afterwards, and none paid for twice."""

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
        """Whether every reply from before the kill still counts and was paid for only once."""
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
    """Compare a run's journal from before the kill with its journal at the end."""
    answered = _answered(before)
    attempts_before = Counter(row.key for row in before if row.key in answered)
    attempts_after = Counter(row.key for row in after if row.key in answered)
    return ChaosReport(
        run=run,
        killed=killed,
        back_after_s=round(back_after_s, 1),
        answered_before=len(answered),
        kept=len(answered & _answered(after)),
        # Only calls with a reply from before the kill: one in flight has to be made again.
        paid_again=(attempts_after - attempts_before).total(),
        lost_attempts=sum(row.state == "lost" for row in after),
        made_again=sum(row.state == "lost" for row in after)
        - sum(row.state == "lost" for row in before),
        outcome=outcome,
    )


def _answered(rows: Sequence[AttemptRow]) -> set[str]:
    return {row.key for row in rows if row.state == "answered"}
