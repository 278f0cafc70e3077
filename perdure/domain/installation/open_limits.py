"""How many runs may be open at once, in all and of one tenant, and what a start above that gets."""

from typing import Literal

from perdure.domain.foundation.base import FrozenModel

Above = Literal["wait", "refuse"]


class OpenLimits(FrozenModel):
    """The most open runs that somebody started; None: no limit. Runs below others do not count."""

    runs: int | None = None
    per_tenant: int | None = None
    above: Above = "wait"

    @property
    def is_unlimited(self) -> bool:
        """Whether any start may go ahead."""
        return self.runs is None and self.per_tenant is None

    def start_refusal(self, tenant: str | None, *, total: int, own: int) -> str | None:
        """Which limit keeps a run of this tenant from starting, in words; None if none does.

        Args:
            tenant: of the run; runs without one are counted in all only.
            total: how many are open.
            own: how many of these are of the tenant.
        """
        if self.runs is not None and total >= self.runs:
            return f"{total} of {self.runs} runs are open (PERDURE_MAX_OPEN_RUNS)"
        if tenant is not None and self.per_tenant is not None and own >= self.per_tenant:
            return (
                f"{own} of {self.per_tenant} runs of {tenant} are open "
                "(PERDURE_MAX_OPEN_RUNS_PER_TENANT)"
            )
        return None
