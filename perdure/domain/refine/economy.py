"""What the refine loop did not send, measured against one that resends everything each time."""

from decimal import ROUND_FLOOR, Decimal

from perdure.domain.budget import Refused
from perdure.domain.refine.feedback import delta_feedback
from perdure.domain.refine.state import Draft, Economy, RefineState
from perdure.domain.rubric import Rubric
from perdure.domain.state import CoreState
from perdure.domain.tokens import estimate

UNJUDGED_KINDS = frozenset({"skipped_identical", "skipped_confident"})


def sent_by_phase(state: RefineState) -> dict[str, int]:
    """Prompt tokens so far, by phase."""
    return {name: part.usage.prompt_tokens for name, part in state.by_phase.items()}


def economized(state: RefineState, rubric: Rubric, *, threshold: float | None) -> Economy:
    """The account with the iteration in progress added.

    The other loop keeps one conversation, which grows by each output and its feedback, and has
    every output judged anew, whole and in all dimensions.
    """
    economy, draft = state.economy, state.draft
    executing, judging = _sent(state, "executing"), _sent(state, "evaluating")
    output = draft.output.tokens.total if draft.output else 0
    first = economy.first or executing
    whole = max(executing, first + economy.history) if executing else 0
    judgement, judged_output = economy.judgement, economy.judged_output
    if draft.judge_prompt and draft.kind == "full":
        judgement, judged_output = draft.judge_prompt, output
    would_judge = judgement + output - judged_output if _would_be_judged(draft, rubric) else 0
    judged = max(judging, would_judge)
    saved_call = _would_be_judged(draft, rubric) and (not draft.asked or draft.cached)
    return Economy(
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


def saved_share(economy: Economy) -> float | None:
    """The share of the newest iteration's input that was not sent; None when nothing was saved."""
    if economy.naive <= economy.sent:
        return None
    return round(1 - economy.sent / economy.naive, 4)


def evaluator_limit(state: CoreState, share: float) -> int | None:
    """The evaluator's share of the token budget; None without a limit."""
    limit = state.budget.limits.limit("tokens")
    if limit is None:
        return None
    return int((limit * Decimal(str(share))).to_integral_value(ROUND_FLOOR))


def judge_room(state: CoreState, *, share: float, prompt_tokens: int, apart: int = 0) -> int | None:
    """The tokens that a judge's reply may have within the share; None without a limit.

    `apart` are tokens of evaluating that are none of the judge's.
    """
    limit = evaluator_limit(state, share)
    return None if limit is None else limit - evaluator_tokens(state) + apart - prompt_tokens


def share_spent(
    state: CoreState, share: float, *, setting: str = "refine.evaluator_share", apart: int = 0
) -> Refused:
    """Why the judge is not called any more, and what to do about it."""
    used, limit = evaluator_tokens(state) - apart, evaluator_limit(state, share) or 0
    note = (
        f"the evaluator used {used:,} of the {limit:,} tokens that are its share ({share:g} of the "
        f"budget), and another judgement does not fit; raise {setting} or budget.tokens"
    )
    return Refused(dimension="tokens", spent=Decimal(used), limit=Decimal(limit), note=note)


def evaluator_tokens(state: CoreState) -> int:
    """What the evaluator used so far, as the budget counts it."""
    part = state.by_phase.get("evaluating")
    reads = state.budget.limits.count_cache_reads
    return part.usage.counted_tokens(count_cache_reads=reads) if part else 0


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
