"""What an iteration's record says of the change that the next one was told to make."""

from perdure.domain.refine.feedback import delta_feedback, failure_feedback
from perdure.domain.refine.settings import RefineSettings
from perdure.domain.refine.state import RefineState
from perdure.domain.rubric import Rubric

ADAPTATION_CHARACTERS = 400
IN_GENERAL = "general refinement"


def told_to_change(state: RefineState, *, rubric: Rubric, settings: RefineSettings) -> str:
    """The delta in one line; of `strategies` nothing, since each names its approach itself."""
    if settings.pattern == "strategies":
        return ""
    evaluation = state.newest.evaluation if state.newest else None
    threshold = settings.quality_threshold
    delta = delta_feedback(rubric, evaluation, threshold=threshold) if evaluation else ""
    told = failure_feedback(state.last_error, delta) if state.last_error else delta
    lines = [" ".join(line.removeprefix("- ").split()) for line in told.splitlines()]
    said = "; ".join(line for line in lines if line) or IN_GENERAL
    return _cut(said)


def adaptation(before: str | None, told: str) -> str | None:
    """What changed already, such as the model, and what is to change next."""
    return "; ".join(part for part in (before, told) if part) or None


def _cut(said: str) -> str:
    if len(said) <= ADAPTATION_CHARACTERS:
        return said
    return f"{said[: ADAPTATION_CHARACTERS - 1]}…"
