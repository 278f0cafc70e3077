"""What happens when a call brings no reply: ask a person for more budget, or end the run."""

from temporalio import workflow

from perdure.domain.budget import accounting as budgets
from perdure.domain.budget.accounting import LimitReached
from perdure.domain.foundation.names import short_model_name
from perdure.domain.run.gates import RAISE, Gate
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.human_input import HumanInput, expired_to_end
from perdure.workflows.engine.model_call_tries import AllModelsFailed, Called, Unpriced
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import StepFailed

# A question about the budget in the last permitted iteration took no raise but one of iterations.
JUDGED_WITHIN = "a raise is judged within its iteration"


class LimitQuestions:
    """Asks for more budget, and says how a run ends when it may not spend more."""

    def __init__(self, run: AnyRun, people: HumanInput) -> None:
        self.run = run
        self.people = people

    async def ask_or_end_if_spent(self) -> Ending | None:
        """The ending of a run whose budget or time is spent; None if it may go on."""
        spent = self._exhausted(within_iteration=self.within_iteration)
        if spent is None or await self.ask_for_budget(spent):
            return None
        outcome = "deadline" if spent.dimension in budgets.TIME_DIMENSIONS else "out_of_budget"
        return Ending(outcome=outcome, reason=spent.dimension, detail=spent.text)

    async def ask_for_budget(self, spent: LimitReached) -> bool:
        """With the policy `ask`, let a person raise the budget or end the run."""
        # Whoever stopped the run has decided already.
        if (
            self.run.state.budget.limits.on_exhausted != "ask"
            or self.run.state.control.stop is not None
        ):
            return False
        prompt = f"The budget is spent ({spent.text}). Raise it with `amend`, then answer `raise`."
        gate = await self.people.ask("budget", prompt, within_iteration=self.within_iteration)
        if gate is None or gate.answer is None or gate.answer.choice != RAISE:
            return False
        # The answer alone is not enough: only an amended limit makes room. Without one the run
        # would ask the same again at once.
        return self._exhausted(within_iteration=gate.within_iteration) is None

    def close_budget_question(self) -> None:
        """Close a question about the budget, now that the budget pays for the next step.

        A run that was amended while it asked may have continued as new, and does not ask again.
        """
        self.people.close_settled("budget", choice=RAISE, by="amend")

    @property
    def within_iteration(self) -> bool:
        """Whether an iteration is in progress that is counted already, and so may finish."""
        return self.run.in_counted_iteration and workflow.patched(JUDGED_WITHIN)

    def _exhausted(self, *, within_iteration: bool) -> LimitReached | None:
        return budgets.exhausted_limit(
            self.run.state.budget,
            wall_time=self.run.wall_time,
            within_iteration=within_iteration,
        )

    def after_escalation(self, gate: Gate | None) -> Ending | None:
        """`accept` takes the best, `stop` ends, `continue` goes on with the text as guidance."""
        if gate is None or gate.answer is None:
            return self.run.ending()
        if expired_to_end(gate):
            return Ending(outcome="unanswered", reason="gate_expired")
        match gate.answer.choice:
            case "accept":
                return Ending(outcome="accepted", reason="approved")
            case "stop":
                return Ending(outcome="stopped", reason="stopped")
            case _:
                if gate.answer.text:
                    self.run.state.control.guidance = [
                        *self.run.state.control.guidance,
                        gate.answer.text,
                    ]
                return None

    def ending_of(self, called: Called) -> Ending:
        """The ending of a run whose call brought no usable reply."""
        match called:
            case LimitReached():
                return Ending(outcome="out_of_budget", reason=called.dimension, detail=called.text)
            case Unpriced(model=model):
                detail = f"nobody knows the price of {short_model_name(model)}"
                return Ending(outcome="out_of_budget", reason="unpriced_model", detail=detail)
            case StepFailed(code="interrupted"):
                return self.run.ending() or Ending(outcome="deadline", reason="active_time")
            case AllModelsFailed() | StepFailed():
                detail = f"{called.code}: {called.message}"
                return Ending(outcome="failed", reason="model_error", detail=detail)
            case _:
                return Ending(outcome="failed", reason="internal", detail="no reply")
