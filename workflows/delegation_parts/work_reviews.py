"""Reviews: a critic's opinion of one result, or of what a manager hands over."""

from perdure.domain.delegation.messages import ReviewReport
from perdure.domain.delegation.prompts import REVIEWED_TOO
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.guidance import demands, in_force
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.structured_replies import work_review

REVIEW_TOKENS = 1_024


class WorkReviews:
    """Asks the critic. If the critic fails, the work continues without an opinion."""

    def __init__(self, run: DelegationRun, engine: Engine) -> None:
        self.run = run
        self.fitting = engine.fitting
        self.models = engine.models

    @property
    def room(self) -> int | None:
        """The tokens of finished work that a question to the critic may show."""
        return self.fitting.reviewed_room("critic")

    async def ask(
        self, question: BlobRef, *, what: str, criteria: tuple[str, ...] = ()
    ) -> ReviewReport | None:
        """Ask for an opinion of a result, or of each criterion; None if there is none."""

        def asked(problems: tuple[str, ...]) -> ModelCallSpec:
            entries = [SayEntry(type="say", ref=question.hash, tokens=question.tokens.total)]
            # Beside the question, not as criteria: guidance about how to work cannot be found in a
            # result.
            if said := self.demanded():
                text = f"{demands(said)}\n{REVIEWED_TOO}"
                entries.append(SayEntry(type="say", text=text))
            if problems:
                entries.append(SayEntry(type="say", text=f"Again, please: {'; '.join(problems)}"))
            return ModelCallSpec(
                role="critic",
                phase="evaluating",
                summary=f"review of {what} (iteration {self.run.iteration})",
                entries=entries,
                max_tokens=self.fitting.reply_tokens("critic", REVIEW_TOKENS),
                tools_off=True,
                structured=work_review(criteria),
                worker=what,
            )

        called = await self.models.call_structured(asked)
        if isinstance(called, ReviewReport) and not called.problems:
            return called
        self.run.inform(f"{what} could not be reviewed.")
        return None

    def demanded(self) -> tuple[str, ...]:
        """What people said since the task was given."""
        return tuple(in_force(self.run.state.control.standing))
