"""The search attributes of a run, computed from its state; strings are clipped for the server."""

from perdure.domain.foundation.names import SEARCH_ATTRIBUTE_LIMIT
from perdure.domain.run.state import LoopState
from perdure.domain.run.status_views import blocked_on, lifecycle_of, phase_of


def told_label(label: str | None, *, mark: str | None) -> str | None:
    """What the server is told of a label: a mark in its place, where the installation has a key."""
    return label if label is None or mark is None else mark


def search_attributes(
    core: LoopState,
    *,
    kind: str,
    label: str | None,
    iteration: int,
) -> dict[str, str | int | float | None]:
    """Name to value; None means unset."""
    cost = core.budget.spent.cost_or_none
    return {
        "PerdureKind": kind,
        "PerdureLifecycle": lifecycle_of(core),
        "PerdurePhase": phase_of(core),
        "PerdureBlockedOn": blocked_on(core),
        "PerdureLabel": None if label is None else label[:SEARCH_ATTRIBUTE_LIMIT],
        "PerdureOutcome": core.outcome,
        "PerdureIteration": iteration,
        "PerdureScore": None if core.best is None else core.best.score,
        "PerdureCostUsd": None if cost is None else float(cost),
    }
