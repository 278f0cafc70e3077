"""What a run is given by the one it works for, and told at its opening."""

from perdure.domain.base import Frozen
from perdure.domain.run import CommonSpec, Site


class Commission(Frozen):
    """Who a run works for, the address of its whole task, and how its models are to sample."""

    parent: str
    label: str | None = None
    briefing: str | None = None
    temperature: float | None = None


def commission_of(site: Site, spec: CommonSpec) -> Commission | None:
    """The commission of a run; None for one that works for nobody."""
    if site.parent is None:
        return None
    return Commission(
        parent=site.parent,
        label=spec.metadata.label,
        briefing=site.briefing,
        temperature=spec.agent.temperature,
    )
