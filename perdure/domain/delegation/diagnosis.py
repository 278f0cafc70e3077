"""Diagnosis: how often the manager may look for causes, and when a hypothesis is confirmed."""

from perdure.domain.foundation.base import FrozenModel

CONFIRMED_ABOVE = 0.5
IN_A_ROW = 2
DELEGATIONS_AFTER = 2
FEWEST = 3
ITERATIONS_PER_DIAGNOSIS = 4


class Diagnoses(FrozenModel):
    """How often causes were looked for: in all, in a row, and the delegations since then."""

    count: int = 0
    in_a_row: int = 0
    delegations_since: int = DELEGATIONS_AFTER

    def after_diagnosis(self) -> "Diagnoses":
        """With one more diagnosis."""
        return Diagnoses(count=self.count + 1, in_a_row=self.in_a_row + 1, delegations_since=0)

    def after_delegation(self) -> "Diagnoses":
        """With one more delegation that ran."""
        since = self.delegations_since + 1
        rested = self.in_a_row < IN_A_ROW or since >= DELEGATIONS_AFTER
        return Diagnoses(
            count=self.count,
            in_a_row=0 if rested else self.in_a_row,
            delegations_since=since,
        )


def diagnosis_refusal(diagnoses: Diagnoses, *, max_iterations: int) -> str | None:
    """Why no further diagnosis is made now; None: it may be made."""
    most = max(FEWEST, max_iterations // ITERATIONS_PER_DIAGNOSIS)
    if diagnoses.count >= most:
        return f"No more diagnoses: {diagnoses.count} of {most} were made. Delegate or complete."
    if diagnoses.in_a_row >= IN_A_ROW:
        missing = DELEGATIONS_AFTER - diagnoses.delegations_since
        return (
            f"No diagnosis now: {diagnoses.in_a_row} were made in a row. "
            f"Delegate work {missing} more time{'s' * (missing > 1)} first."
        )
    return None


def confirmed(confidence: float | None) -> bool:
    """Whether the test of a hypothesis bears it out."""
    return confidence is not None and confidence > CONFIRMED_ABOVE
