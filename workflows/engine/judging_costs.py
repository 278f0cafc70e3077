"""What judging a draft costs, known before the draft is written."""

from collections.abc import Iterable

from perdure.domain.budget.accounting import LimitReached, Reservation
from perdure.domain.budget.allowances import judging, least_output
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.tokens import estimate
from perdure.domain.llm.requests import Price
from perdure.domain.scoring.judging import evaluator_share_refusal, judge_room
from perdure.domain.turns.guidance import in_force
from perdure.workflows.engine.policies import ModelSelection, Scoring
from perdure.workflows.engine.run import AnyRun

JUDGE_PROMPT_TOKENS = 400
LEAST_JUDGE_TOKENS = 256


class JudgingCosts:
    """Estimates the tokens of the judges' prompts and of their shortest verdicts."""

    def __init__(self, run: AnyRun, selection: ModelSelection[AnyRun], scoring: Scoring) -> None:
        self.run = run
        self.selection = selection
        self.scoring = scoring

    def least(self, rubric: Rubric, *, draft_tokens: int) -> Reservation:
        """The least that judging a draft costs: one short verdict from each judge."""
        state = self.run.state
        prompt = state.system_tokens + self.prompt(draft_tokens)
        replies = [
            (price, max(LEAST_JUDGE_TOKENS, least_output("judgement", items=len(names))))
            for price, names in zip(self.prices(rubric), rubric.judges.values(), strict=True)
        ]
        # Judges may be different models that count tokens differently; the largest factor is the
        # safe one.
        factors = [state.factors.get(name, 1.0) for name in self._names(rubric)]
        text = round(prompt * max(factors, default=1.0))
        return judging(replies, prompt_tokens=text + self.shown(self._names(rubric)))

    def shown(self, models: Iterable[str]) -> int:
        """The most tokens that the task's images and PDFs take of a prompt, over these models."""
        state = self.run.state
        cards = [state.cards[name] for name in models if name in state.cards]
        return max((card.attachment_tokens(state.task_media) for card in cards), default=0)

    def prices(self, rubric: Rubric) -> tuple[Price | None, ...]:
        cards = self.run.state.cards
        return tuple(cards[name].price if name in cards else None for name in self._names(rubric))

    def _names(self, rubric: Rubric) -> tuple[str, ...]:
        return tuple(name or self.selection.model_of("evaluator") for name in rubric.judges)

    def prompt(self, draft_tokens: int) -> int:
        """Our token count of a judge's prompt, without the system prompt."""
        state = self.run.state
        said = estimate("\n".join(in_force(state.control.standing))).total
        return state.task_tokens + JUDGE_PROMPT_TOKENS + said + draft_tokens

    def share_problem(self, rubric: Rubric, *, draft_tokens: int) -> LimitReached | None:
        """The limit that leaves too little of the judges' share; None if the share is enough."""
        state, share, judges = self.run.state, self.scoring.evaluator_share, len(rubric.judges)
        if not judges:
            return None
        judge = self.selection.model_of("evaluator")
        prompt = round(self.prompt(draft_tokens) * state.factors.get(judge, 1.0))
        prompt += self.shown([judge])
        room = judge_room(state, share=share, prompt_tokens=prompt * judges)
        if room is None or room >= LEAST_JUDGE_TOKENS * judges:
            return None
        return evaluator_share_refusal(state, share, setting=self.scoring.share_setting)
