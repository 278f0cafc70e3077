"""`LearnLoop`: learns from a run that has ended, with a small budget of its own.

It is a child run that its parent does not wait for. Rules always come first. A model is asked only
if it may find more; if that fails, nothing is lost.
"""

from temporalio import workflow

from perdure.activities.memory import KeepLearnings, Review
from perdure.domain.budget.accounting import Budget, LimitReached
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.memory.learn_messages import (
    ExtractReport,
    KeepRequest,
    LearnInput,
    LearnSpec,
    LearnState,
    ReviewRequest,
    in_words,
    learn_result,
)
from perdure.domain.memory.learner_reply import retry_prompt
from perdure.domain.run.result import RunResult
from perdure.domain.turns.entries import SayEntry
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.handlers import ControlHandlers
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_call_tries import Called, why_unusable
from perdure.workflows.engine.run import Run
from perdure.workflows.engine.step_runner import StepFailed
from perdure.workflows.engine.structured_replies import learnings

REPLY_TOKENS = 1_024


class LearnRun(Run[LearnSpec, LearnState]):
    """A learning run: a single iteration that takes no input from people."""

    takes_input = False

    def __init__(self, given: LearnInput) -> None:
        fresh = LearnState(started_at=workflow.now(), budget=Budget(limits=given.spec.budget))
        super().__init__(given, kind="learn", spec=given.spec, state=given.state, fresh=fresh)

    @property
    def iteration(self) -> int:
        """Always 1."""
        return 1

    @property
    def iteration_limit(self) -> int | None:
        """Always 1."""
        return 1


@workflow.defn(name="LearnLoop")
class LearnLoop(ControlHandlers):
    """Reviews one run that has ended: first by rules, then by a model if that may find more."""

    @workflow.init
    def __init__(self, given: LearnInput) -> None:
        self.run = LearnRun(given)
        self.engine = Engine(self.run)
        self.control = self.engine.control

    @workflow.run
    async def execute(self, given: LearnInput) -> RunResult:
        """Run to the result; `__init__` has taken the input."""
        return await self.engine.life.run_to_end(self._loop)

    async def _loop(self) -> RunResult:
        """Review by rules, ask a model if the review left a question, and report."""
        if not self.run.state.reviewed:
            self.run.record_event("run_started", kind=self.run.kind)
            self.run.sync_visibility()
            # Rules first: they cost nothing, and what they find is stored before any model is
            # asked.
            broken = await self._review()
            if broken is not None:
                return await self._close(broken)
        ending = await self.engine.life.checkpoint()
        if ending is None and self.run.state.question is not None:
            await self._ask_model(self.run.state.question)
            ending = self.run.ending()
        return await self._close(ending or Ending(outcome="accepted", reason="completed"))

    async def _review(self) -> Ending | None:
        """Apply the rules and store what they find."""
        self.run.set_phase("working")
        activity_id = self.run.next_activity_id()
        handle = workflow.start_activity_method(
            Review.review,
            ReviewRequest(
                run=self.run.id,
                source=self.run.spec.source,
                chain=self.run.spec.models.chain("learner"),
            ),
            **activity_options.store_step(
                self.run.site, activity_id=activity_id, summary="review the run"
            ),
        )
        reviewed = await self.engine.steps.await_step(handle, activity_id=activity_id)
        # A person's stop also shows as a failed step; `ending` tells the two apart.
        if isinstance(reviewed, StepFailed):
            detail = f"{reviewed.code}: {reviewed.message}"
            return self.run.ending() or Ending(outcome="failed", reason="internal", detail=detail)
        state, report = self.run.state, reviewed.report
        state.reviewed, state.question, state.note = True, report.question, report.note
        state.kept, state.reinforced, state.heard = report.kept, report.reinforced, report.heard
        state.frame, state.cards, state.queues = report.frame, report.cards, report.queues
        state.system_tokens = report.system_tokens
        return None

    async def _ask_model(self, question: BlobRef) -> None:
        """Ask the learner model. Without a usable answer the rules' learnings stand alone."""
        # A learning run has a small budget of its own: a run that ended must not be charged later.
        limit = self.engine.fitting.reply_tokens("learner", REPLY_TOKENS)
        called = await self.engine.models.call_structured(
            lambda problems: _call_spec(question, problems, limit)
        )
        # Cleared before the reply is read, so that continuing as new here does not ask, and pay,
        # again.
        self.run.state.question = None
        if not isinstance(called, ExtractReport) or called.problems:
            self.run.state.note = f"the learner gave nothing of use: {_why(called)}"
            return
        if not called.learnings:
            self.run.state.note = "the learner found nothing more"
            return
        # Only the review needs the unwritten records; sending them again would grow the history.
        source = self.run.spec.source.model_copy(update={"unwritten": ()})
        report = await workflow.execute_activity_method(
            KeepLearnings.keep_learnings,
            KeepRequest(source=source, learnings=called.learnings),
            **activity_options.store_step(
                self.run.site, summary=f"keep {len(called.learnings)} learnings"
            ),
        )
        self.run.state.kept += report.kept
        self.run.state.reinforced += report.reinforced

    async def _close(self, ending: Ending) -> RunResult:
        """Report what was learned and end the run."""
        state, ending = self.run.state, self.engine.life.settle_ending(ending)
        self.run.record_event(
            "learned",
            source=self.run.spec.source.id,
            kept=state.kept,
            reinforced=state.reinforced,
            heard=state.heard,
            note=state.note or None,
        )
        detail = ending.detail or in_words(state)
        ended = ending.model_copy(update={"detail": detail})
        result = learn_result(state, run=self.run.id, ending=ended, wall_time=self.run.wall_time)
        return await self.engine.life.finish(result, ())


def _call_spec(question: BlobRef, problems: tuple[str, ...], limit: int) -> ModelCallSpec:
    asked = SayEntry(type="say", ref=question.hash, tokens=question.tokens.total)
    entries = [asked, SayEntry(type="say", text=retry_prompt(problems))] if problems else [asked]
    return ModelCallSpec(
        role="learner",
        phase="working",
        summary="learn",
        entries=entries,
        max_tokens=limit,
        tools_off=True,
        structured=learnings(),
    )


def _why(called: Called) -> str:
    if isinstance(called, LimitReached):
        return f"its budget is too small ({called.text})"
    return why_unusable(called) or "it did not answer"
