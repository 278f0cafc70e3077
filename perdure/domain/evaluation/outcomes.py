"""How a run can end: the closed table of outcomes and reasons, and the words for a person."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from perdure.domain.foundation.base import FrozenModel
from perdure.domain.llm.errors import RETRIED_KINDS

Outcome = Literal[
    "accepted",
    "best_effort",
    "out_of_budget",
    "deadline",
    "regressed",
    "tool_misuse",
    "no_output",
    "unanswered",
    "blocked",
    "stopped",
    "failed",
]
Lifecycle = Literal["running", "paused", "waiting", "completed", "failed", "stopped"]


class RunEnd(FrozenModel):
    """A verdict that a run is over; `explanation` is one sentence for a person."""

    outcome: Outcome
    reason: str
    explanation: str


# What is said of a result stands behind `; this is`: of a run that has none it is cut off.
_SENTENCES: dict[Outcome, dict[str, str]] = {
    "accepted": {
        "quality_met": "The result reached the quality that was asked for.",
        "text_answer": "The model answered in text and asked for no more tools.",
        "approved": "The result was approved.",
        "goal_achieved": "The judge found the goal achieved.",
        "completed": "The work was completed.",
        "all_items_pass": "Every item of the checklist passed.",
        "strategy_succeeded": "One of the strategies passed.",
        "read_only": "The question needed an answer only, so nothing was evaluated.",
    },
    "best_effort": {
        "max_iterations": "The permitted iterations are used up; this is the best result.",
        "diminishing_returns": "The last iteration gained too little; this is the best result.",
        "plateau": "No iteration improved on the best any more; this is it.",
        "converged": "The results stopped changing; this is the best one.",
        "stalled": "The work made no progress and no strategy was left; this is the best result.",
        "repeated_output": "The same output came back; this is the best result.",
        "plan_loop_stall": "The plan went in circles; this is the best result.",
        "completion_rejected": "The claimed completion was rejected; this is the best result.",
        "gave_up": "The manager gave up; this is the best result so far.",
        "output_limit": (
            "The model's answer was cut at its output limit again and again; "
            "this is what there is of it."
        ),
        "schema_unmet": "The answer does not fit `output_schema`, though it was asked for again.",
        "recovered": (
            "The model could not be used any more; "
            "this was written by the recovery model from what was done."
        ),
    },
    "out_of_budget": {
        "tokens": "The token budget is spent; this is the best result so far.",
        "output_tokens": "The budget of output tokens is spent; this is the best result so far.",
        "cost": "The cost budget is spent; this is the best result so far.",
        "tool_calls": "The permitted tool calls are used up; this is the best result so far.",
        "model_calls": "The permitted model calls are used up; this is the best result so far.",
        "workers": "The permitted workers are used up; this is the best result so far.",
        "iterations": "The iteration budget is spent; this is the best result so far.",
        "unpriced_model": "The model has no known price, and the run has a cost limit.",
    },
    "deadline": {
        "wall_time": "The time limit passed; this is the best result so far.",
        "active_time": "The working time is used up; this is the best result so far.",
    },
    "regressed": {
        "regression": "Quality fell more than was allowed; this is the best result before that.",
        "degradation": "Quality kept falling; this is the best result before that.",
    },
    "tool_misuse": {
        "illegal_tool": "The model kept asking for tools that it was not given.",
        "tool_loop": "The model kept repeating the same tool call.",
    },
    "no_output": {"no_output": "Work was done, but there is nothing to show."},
    "unanswered": {"gate_expired": "Nobody answered a question in time, and the run was to end."},
    "blocked": {
        "blocked": "The work could not go on without help, and none came.",
        "asked_above": "It needs an answer of the manager above it.",
        "rework_exhausted": "The same findings came back after every rework.",
    },
    "stopped": {
        "stopped": "The run was stopped; this is the best result so far.",
        "parent_closed": "The run above this one ended; this is the best result so far.",
    },
    "failed": {
        "model_error": "The model could not be used.",
        "refusal": "The model refused the task.",
        "stage_failed": "A stage failed.",
        "manager_unreadable": "The manager's decisions could not be read.",
        "schema_unmet": "No draft fits `output_schema`, though each was asked for again.",
        "quality_failed": "The result was below the lowest acceptable quality.",
        "gave_up": "The manager gave up with nothing to show.",
        "invalid_input": "The input of the run was not valid.",
        "invalid_task": "The task cannot be run as it stands; nothing was spent.",
        "month_spent": "The month's budget of its schedule is spent, so it did not begin.",
        "no_room": "As many runs were open as may be, so it did not begin.",
        "evaluator_failed": "The result could not be evaluated, so nobody knows how good it is.",
        "hook_failed": "What changes before the next iteration could not be computed.",
        "internal": "An error inside Perdure ended the run.",
    },
}

_THE_RESULT = re.compile(r"; this is [^(.]*(?= \(|\.)")
_CUT_TEXT = "The text was cut at the model's output limit and stops before its end."
_NOT_HEALED = "The model could not be used, and retries did not heal it."
_NOTHING_TO_RETRY = "The model could not be used, and trying again would not change that."
# By the code that begins the detail: `model_authentication: …`.
_MODEL_ERRORS: Mapping[str, str] = MappingProxyType(
    {f"model_{kind}": _NOT_HEALED for kind in RETRIED_KINDS}
    | {f"model_{kind}": _NOTHING_TO_RETRY for kind in ("bad_request", "too_large")}
    | {
        "model_authentication": "The API key was refused or is missing. Check the key of the "
        "model's provider: for Claude ANTHROPIC_API_KEY, for OpenAI OPENAI_API_KEY, for another "
        "server what its entry in PERDURE_PROVIDERS names.",
        "model_bad_reply": "The provider answered with what cannot be used. It was not asked more "
        "often, since each answer may have to be paid for. Use another model, or name a second one "
        "in `models`, which takes over.",
        "model_permission": "The account may not use this model. Check its rights and its credit.",
        "model_unknown_model": "The provider does not know this model. Check its name.",
        "model_context_overflow": "The conversation does not fit into the model's window.",
    }
)

_NEVER_BEGAN = frozenset({"invalid_input", "invalid_task", "month_spent", "no_room"})
# The same conversation would fail the same way again.
_SAME_AGAIN = frozenset({"model_bad_request", "model_too_large", "model_context_overflow"})

REASONS: Mapping[Outcome, tuple[str, ...]] = MappingProxyType(
    {outcome: tuple(sentences) for outcome, sentences in _SENTENCES.items()}
)


def retry_helps(outcome: str, reason: str, error: str | None = None) -> bool:
    """Whether `retry` can change how a run ended, once the cause is fixed.

    A retry uses the same specification, so it does not help against what that causes.
    """
    if outcome not in {"failed", "blocked"} or reason in _NEVER_BEGAN:
        return False
    return reason != "model_error" or (error or "").partition(":")[0] not in _SAME_AGAIN


def run_end(outcome: Outcome, reason: str, detail: str = "") -> RunEnd:
    """A verdict from the closed table, explained with the figures in `detail`."""
    return RunEnd(outcome=outcome, reason=reason, explanation=explain(outcome, reason, detail))


def explain(outcome: Outcome, reason: str, detail: str = "") -> str:
    """The sentence for a person; `detail` carries the figures behind it.

    A model error's detail begins with its code, which says more than the reason alone.

    Raises:
        ValueError: the pair is not in the table.
    """
    sentence = _SENTENCES[outcome].get(reason)
    if sentence is None:
        allowed = ", ".join(REASONS[outcome])
        raise ValueError(f"outcome {outcome} has no reason {reason!r}; it has {allowed}")
    if reason == "model_error":
        sentence = _MODEL_ERRORS.get(detail.partition(":")[0], sentence)
    return f"{sentence.removesuffix('.')} ({detail.removesuffix('.')})." if detail else sentence


def with_cut_text(explanation: str, *, cut: bool) -> str:
    """The explanation for a run whose text stops before its end."""
    if not cut or "output limit" in explanation:
        return explanation
    return f"{explanation} {_CUT_TEXT}"


def with_nothing_to_show(explanation: str) -> str:
    """The explanation for a run that has no result, although the sentence speaks of one."""
    return _THE_RESULT.sub("; there is nothing to show yet", explanation)


def lifecycle(outcome: Outcome) -> Lifecycle:
    """The lifecycle of a run with this outcome: completed, failed or stopped."""
    match outcome:
        case "failed" | "blocked":
            return "failed"
        case "stopped":
            return "stopped"
        case _:
            return "completed"
