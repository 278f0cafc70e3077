"""What a run is given by the one it works for, and told at its opening."""

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.run.spec import CommonSpec, Placement


class Commission(FrozenModel):
    """Who a run works for, the address of its whole task, and how its models are to sample.

    A run that works for nobody may still be told how to sample.
    """

    parent: str | None = None
    label: str | None = None
    briefing: str | None = None
    temperature: float | None = None


def commission_of(site: Placement, spec: CommonSpec) -> Commission | None:
    """The commission of a run; None for one that is told nothing of the kind."""
    if site.parent is None and spec.agent.temperature is None:
        return None
    return Commission(
        parent=site.parent,
        label=spec.metadata.label,
        briefing=site.briefing,
        temperature=spec.agent.temperature,
    )
