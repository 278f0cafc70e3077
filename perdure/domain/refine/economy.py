"""What the refine loop did not send, measured against one that resends everything each time."""

from perdure.domain.refine.feedback import delta_feedback
from perdure.domain.refine.state import Economy, RefineState
from perdure.domain.rubric import Rubric
from perdure.domain.tokens import estimate


def sent_by_phase(state: RefineState) -> dict[str, int]:
    """Prompt tokens so far, by phase."""
    return {name: part.usage.prompt_tokens for name, part in state.by_phase.items()}


def economized(state: RefineState, rubric: Rubric, *, threshold: float | None) -> Economy:
    """The account with the iteration in progress added.

    The other loop keeps one conversation, which grows by each output and its feedback, and judges
    every output anew.
    """
    economy, draft = state.economy, state.draft
    executing = _sent(state, "executing")
    judging = _sent(state, "evaluating")
    first = economy.first or executing
    judgement = judging or economy.judgement
    skipped = draft.kind in {"skipped_identical", "skipped_confident"}
    whole = max(executing, first + economy.history) if executing else 0
    judged = max(judging, judgement if skipped and rubric.judged else 0)
    said = draft.output.tokens.total if draft.output else 0
    if draft.evaluation is not None:
        told = delta_feedback(rubric, draft.evaluation, threshold=threshold)
        said += estimate(told).total
    return Economy(
        first=first,
        history=economy.history + said,
        judgement=judgement,
        spared=economy.spared + whole - executing + judged - judging,
        evaluations_skipped=economy.evaluations_skipped + skipped,
        judge_calls_saved=economy.judge_calls_saved + (skipped and bool(rubric.judged)),
    )


def _sent(state: RefineState, phase: str) -> int:
    part = state.by_phase.get(phase)
    return (part.usage.prompt_tokens if part else 0) - state.draft.sent.get(phase, 0)
