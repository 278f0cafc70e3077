"""The next step of the delegation loop, and the phases of its budget."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from perdure.domain.delegation.decisions import Complete, DecisionName, Envelope, Hypothesis
from perdure.domain.evaluation.outcomes import RunEnd

BudgetPhase = Literal["core_work", "validation_and_repair", "synthesis", "reserve"]
# Ascending: the first limit that holds is that of the latest phase.
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


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The reply could not be read; the manager is asked once more, with the problems."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecisionRefused:
    """The decision is refused; the next prompt tells the manager why."""

    why: str


@dataclass(frozen=True, slots=True)
class Work:
    """Run these workers; the deferred ones were more than an iteration takes."""

    envelopes: tuple[Envelope, ...]
    deferred: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """The plan was taken; there is nothing to run."""


@dataclass(frozen=True, slots=True)
class Test:
    """Test these hypotheses with light workers."""

    __test__ = False  # pytest would take the name for a test class

    hypotheses: tuple[Hypothesis, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Run the completion checks."""

    complete: Complete


@dataclass(frozen=True, slots=True)
class Rate:
    """All checks passed; the rubric scores what is handed over."""


@dataclass(frozen=True, slots=True)
class AskPerson:
    """Open a gate."""

    question: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Repair:
    """Run one critical repair, then let the manager go on."""

    envelope: Envelope


@dataclass(frozen=True, slots=True)
class End:
    """The run is over."""

    verdict: RunEnd


Directive = AskAgain | DecisionRefused | Work | Planned | Test | Check | AskPerson | End
AfterCheck = DecisionRefused | Repair | End
