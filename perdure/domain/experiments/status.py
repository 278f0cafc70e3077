"""How an experiment stands, as lists and followers show it."""

from datetime import datetime
from decimal import Decimal

from perdure.domain.experiments.plan import ExperimentBudget
from perdure.domain.foundation.base import FrozenModel


class ExperimentStatus(FrozenModel):
    """How an experiment stands: trials, ended and running, and what its runs have spent."""

    type: str = "experiment"
    id: str
    name: str
    state: str
    reason: str
    arms: tuple[str, ...]
    inputs: int
    repeats: int
    trials: int
    ended: int
    running: int = 0
    spent_usd: Decimal | None = Decimal(0)
    spent_tokens: int = 0
    budget: ExperimentBudget
    problem: str = ""
    created_at: datetime
    ended_at: datetime | None = None

    @property
    def open(self) -> bool:
        return self.state != "ended"

    @property
    def cut_short(self) -> bool:
        """Whether it ended before all its trials had."""
        return not self.open and self.ended < self.trials
