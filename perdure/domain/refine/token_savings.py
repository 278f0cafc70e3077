"""The tokens that the refine loop saved, and those that each iteration may spend.

Recall has a tenth, the first three iterations 30, 35 and 25 %; with more iterations the rest is
split evenly. What one does not use is carried to the next, so the shares are ceilings of the sum.
"""

from perdure.domain.budget.accounting import Budget
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.tokens import estimate
from perdure.domain.refine.state import Draft, RefineState, SavingsState
from perdure.domain.scoring.feedback import delta_feedback

UNJUDGED_KINDS = frozenset({"skipped_identical", "skipped_confident"})


def sent_by_phase(state: RefineState) -> dict[str, int]:
    """Prompt tokens so far, by phase."""
    return {name: part.usage.prompt_tokens for name, part in state.by_phase.items()}


def economized(state: RefineState, rubric: Rubric, *, threshold: float | None) -> SavingsState:
    """The account with the iteration in progress added.

    The other loop keeps one conversation, which grows by each output and its feedback, and has
    every output judged anew, whole and in all dimensions.
    """
    economy, draft = state.economy, state.draft
    executing, judging = _sent(state, "executing"), _sent(state, "evaluating")
    output = draft.output.tokens.total if draft.output else 0
    first = economy.first or executing
    # Never less than what was sent: turns with tools send more than one prompt, in both loops.
    whole = max(executing, first + economy.history) if executing else 0
    judgement, judged_output = economy.judgement, economy.judged_output
    # An excerpt, or some dimensions alone, would not show what judging the whole takes.
    if draft.judge_prompt and draft.kind == "full":
        judgement, judged_output = draft.judge_prompt, output
    # The same question about this output: only the length of the work differs.
    would_judge = judgement + output - judged_output if _would_be_judged(draft, rubric) else 0
    judged = max(judging, would_judge)
    saved_call = _would_be_judged(draft, rubric) and (not draft.asked or draft.cached)
    return SavingsState(
        first=first,
        history=economy.history + output + _told(draft, rubric, threshold),
        judgement=judgement,
        judged_output=judged_output,
        spared=economy.spared + whole - executing + judged - judging,
        sent=executing + judging,
        naive=whole + judged,
        evaluations_skipped=economy.evaluations_skipped + (draft.kind in UNJUDGED_KINDS),
        judge_calls_saved=economy.judge_calls_saved + saved_call,
    )


def saved_share(economy: SavingsState) -> float | None:
    """The share of the newest iteration's input that was not sent; None when nothing was saved."""
    if economy.naive <= economy.sent:
        return None
    return round(1 - economy.sent / economy.naive, 4)


def _would_be_judged(draft: Draft, rubric: Rubric) -> bool:
    evaluated = draft.evaluation is not None and draft.failure is None and draft.cut is None
    return evaluated and bool(rubric.judged)


def _told(draft: Draft, rubric: Rubric, threshold: float | None) -> int:
    if draft.evaluation is None:
        return 0
    return estimate(delta_feedback(rubric, draft.evaluation, threshold=threshold)).total


def _sent(state: RefineState, phase: str) -> int:
    part = state.by_phase.get(phase)
    return (part.usage.prompt_tokens if part else 0) - state.draft.sent.get(phase, 0)


# They close the conversation of an iteration with a text, never a draft: the only call of a draft
# is limited by the whole budget.
RECALL_SHARE = 0.10
FIRST_SHARE = 0.30
SECOND_SHARE = 0.35


def ceiling(iteration: int, *, permitted: int) -> float:
    """The part of all tokens that may be spent when `iteration` of `permitted` ends, from 0 to 1.

    The last permitted iteration may spend everything.
    """
    if iteration >= permitted:
        return 1.0
    first = RECALL_SHARE + FIRST_SHARE
    if iteration <= 1:
        return first
    first_two = first + SECOND_SHARE
    # More than two are permitted here: the last permitted one returned above.
    return first_two + (1.0 - first_two) * (iteration - 2) / (permitted - 2)


def is_share_used(budget: Budget, iteration: int, *, permitted: int) -> bool:
    """Whether an iteration has used what it may; never without a token limit."""
    limit = budget.limits.tokens
    # Zero means unlimited, as None does.
    if not limit:
        return False
    return budget.spent.tokens >= ceiling(iteration, permitted=permitted) * limit
