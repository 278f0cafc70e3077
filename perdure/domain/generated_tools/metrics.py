"""What the factory of a run did so far, for people and dashboards."""

from typing import Self

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.generated_tools.rejections import Stage


class ToolMetrics(FrozenModel):
    """Counts over the tools that a run wanted.

    An attempt is one draft, whatever it took; a failure is one stage not passed, so that a draft
    that was repaired counts there as well.
    """

    attempts: int = 0
    successes: int = 0
    cache_hits: int = 0
    failures: dict[Stage, int] = {}
    repairs_tried: int = 0
    repairs_won: int = 0

    def attempted(self) -> Self:
        """One draft more."""
        return self.model_copy(update={"attempts": self.attempts + 1})

    def failed(self, stage: Stage) -> Self:
        """One stage not passed."""
        failures = {**self.failures, stage: self.failures.get(stage, 0) + 1}
        return self.model_copy(update={"failures": failures})

    def repairing(self) -> Self:
        """One repair asked for."""
        return self.model_copy(update={"repairs_tried": self.repairs_tried + 1})

    def succeeded(self, *, cached: bool, repaired: bool) -> Self:
        """One tool more on offer."""
        return self.model_copy(
            update={
                "successes": self.successes + 1,
                "cache_hits": self.cache_hits + cached,
                "repairs_won": self.repairs_won + repaired,
            }
        )
