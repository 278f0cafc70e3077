"""A draft is written only where it can be judged too: its judging is held back from its writing.

A draft that nobody scored could not be returned as the best; what it cost would be lost.
"""

from decimal import Decimal

from temporalio import workflow

from perdure.domain.budget.accounting import (
    MIN_OUTPUT_TOKENS,
    Budget,
    LimitReached,
    fit_call,
    reserve,
)
from perdure.domain.budget.allowances import judged_reply
from perdure.domain.llm.requests import ModelProfile
from perdure.workflows.engine.judging_costs import JudgingCosts
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.refine_parts.policies import StrategyModels
from perdure.workflows.refine_parts.run import RefineRun

# Patch: the tool turns of a draft used the model calls that its judges needed.
HOLDS_CALLS = "judges have their model calls held"


class JudgingReserve:
    """Bounds the calls that write a draft, so that its judges can be paid."""

    def __init__(self, run: RefineRun, selection: StrategyModels, costs: JudgingCosts) -> None:
        self.run = run
        self.selection = selection
        self.costs = costs

    def why_not_payable(self) -> LimitReached | None:
        """Why a draft with its judging cannot be paid for; None where it can."""
        state, judges = self.run.state, len(self.run.rubric.judges)
        if state.answer_only is not None or not judges:
            return None
        calls = state.budget.remaining("model_calls")
        if calls is not None and calls < 1 + judges:
            spent, limit = state.budget.spent.model_calls, state.budget.limits.model_calls or 0
            note = f"model_calls: {spent} of {limit}; a draft with its judging makes {1 + judges}"
            return LimitReached(
                dimension="model_calls", spent=Decimal(spent), limit=Decimal(limit), note=note
            )
        model, expected = self.selection.model_of("executor"), self._expected_tokens()
        tokens = state.system_tokens + state.task_tokens
        fit = fit_call(
            self._without_judging(),
            prompt_tokens=round(tokens * state.factors.get(model, 1.0))
            + state.cards[model].attachment_tokens(state.task_media),
            wanted=expected,
            price=state.cards[model].price,
        )
        if isinstance(fit, LimitReached):
            note = f"{fit.text}, and what is left does not pay a draft with its judging"
            return fit.model_copy(update={"note": note})
        return self.costs.share_problem(self.run.rubric, draft_tokens=expected)

    def left_for(self, ask: ModelCallSpec) -> Budget:
        """What a call may use: for a draft without what judging it takes."""
        return self._without_judging() if self._writes_a_draft(ask) else self.run.state.budget

    def left_for_draft(self) -> Budget:
        """What the turns of the draft in progress may use."""
        return self._without_judging() if self._is_judged else self.run.state.budget

    def longest_reply(
        self, ask: ModelCallSpec, card: ModelProfile, budget: Budget, *, prompt: int
    ) -> int | None:
        """The longest draft whose judging the budget can pay, in tokens; None for no limit."""
        if not self._writes_a_draft(ask):
            return None
        longest = judged_reply(
            budget,
            prompt_tokens=prompt,
            price=card.price,
            judges=self.costs.prices(self.run.rubric),
            expected=self._expected_tokens(),
        )
        return None if longest is None else max(longest, MIN_OUTPUT_TOKENS)

    def _expected_tokens(self) -> int:
        """How long the next draft may be expected to be: like the last one."""
        newest = self.run.state.newest
        return max(MIN_OUTPUT_TOKENS, newest.output.tokens.total if newest else 0)

    def _without_judging(self) -> Budget:
        budget = self.run.state.budget
        held = self.costs.least(self.run.rubric, draft_tokens=self._expected_tokens())
        if budget.limits.model_calls and not workflow.patched(HOLDS_CALLS):
            held = held.model_copy(update={"model_calls": 0})
        return reserve(budget, "judging", held)

    @property
    def _is_judged(self) -> bool:
        return self.run.state.answer_only is None and bool(self.run.rubric.judges)

    def _writes_a_draft(self, ask: ModelCallSpec) -> bool:
        # A closing text is paid from the reserve, which is there for having any text at all.
        return ask.phase == "executing" and not ask.wrap_up and self._is_judged
