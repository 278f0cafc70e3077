"""What the rest of the budget is for: work, then repair, then synthesis, then an end."""

from collections.abc import Mapping
from typing import Literal

from perdure.domain.delegation.decisions import DecisionName

BudgetPhase = Literal["core_work", "validation_and_repair", "synthesis", "reserve"]
_FROM: tuple[tuple[float, BudgetPhase], ...] = (
    (0.05, "reserve"),
    (0.20, "synthesis"),
    (0.40, "validation_and_repair"),
)
TOLD: Mapping[BudgetPhase, str] = {
    "core_work": "Work on the task.",
    "validation_and_repair": "Check what there is and repair it; start nothing large.",
    "synthesis": "Bring together what there is. New plans are not taken any more.",
    "reserve": "Complete now, with what there is. Nothing else is taken any more.",
}
_REFUSED: Mapping[BudgetPhase, frozenset[DecisionName]] = {
    "core_work": frozenset(),
    "validation_and_repair": frozenset(),
    "synthesis": frozenset({"plan"}),
    # A manager that gives up ends the run, which spends nothing.
    "reserve": frozenset({"plan", "delegate", "diagnose", "escalate"}),
}


def budget_phase(fraction_remaining: float) -> BudgetPhase:
    """The phase at a fraction of the budget; a boundary belongs to the later phase."""
    for limit, name in _FROM:
        if fraction_remaining <= limit:
            return name
    return "core_work"


def phase_refusal(phase: BudgetPhase, decision: DecisionName) -> str | None:
    """Why a decision is not taken any more; None: it is."""
    if decision not in _REFUSED[phase]:
        return None
    return f"The budget is in the phase {phase}, which takes no {decision}. {TOLD[phase]}"
