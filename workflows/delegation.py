"""`DelegationLoop`: a manager delegates, plans, diagnoses or completes until the task is done."""

from collections.abc import Sequence
from typing import assert_never

from temporalio import workflow

from perdure.activities.manager import Shelve
from perdure.domain.delegation.apply_decision import UNHEARD, decide
from perdure.domain.delegation.confidence import iteration_confidence
from perdure.domain.delegation.decisions import (
    Complete,
    Envelope,
    Hypothesis,
)
from perdure.domain.delegation.next_step import (
    AfterCheck,
    AskAgain,
    AskPerson,
    Check,
    DecisionRefused,
    Directive,
    End,
    Planned,
    Rate,
    Repair,
    Test,
    Work,
)
from perdure.domain.delegation.progress import (
    after_delegation,
    after_diagnosis,
    planned_end,
    progress_end,
)
from perdure.domain.delegation.result import delegation_result, keep_best, record_of, to_hand_over
from perdure.domain.delegation.results import WorkerReport
from perdure.domain.delegation.stall import StallVerdict
from perdure.domain.delegation.state import DelegationInput
from perdure.domain.delegation.worker_specs import hypothesis_envelope
from perdure.domain.foundation.plain_text import clipped_line
from perdure.domain.run.activity_messages import ShelveRequest
from perdure.domain.run.result import RunResult
from perdure.domain.turns.turn import Ending
from perdure.workflows.delegation_parts.completion_checks import CompletionChecks
from perdure.workflows.delegation_parts.deliverable_score import DeliverableScore
from perdure.workflows.delegation_parts.manager_decisions import ManagerDecisions
from perdure.workflows.delegation_parts.questions import Questions
from perdure.workflows.delegation_parts.run import (
    DelegationRequirements,
    DelegationRun,
    DeliverableScoring,
)
from perdure.workflows.delegation_parts.tool_factory import ToolFactory
from perdure.workflows.delegation_parts.work_reviews import WorkReviews
from perdure.workflows.delegation_parts.worker_runs import WorkerRuns
from perdure.workflows.delegation_parts.worker_skills import WorkerSkills
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.handlers import ControlHandlers
from perdure.workflows.engine.reframe import reframe
from perdure.workflows.engine.scorer import Scorer
from perdure.workflows.engine.start_learning import finish_and_learn

REASON_CHARACTERS = 300
TITLE_CHARACTERS = 60
NO_REASON = "the manager gave no reason"
# Patch: a run whose results stopped changing ended before its manager had read what people added.
HEARS_FIRST = "what people added is read before the rules of progress end a run"
# Patch: work for which there was no budget failed its subtask, and was read as a confidence of 0.
NEVER_BEGAN_LEAVES_ALL = "work that has not begun leaves its subtask as it was"
# Patch: the rubric's judges scored by the goal that a run began with.
JUDGED_BY_NEW_GOAL = "deliverables are judged by an amended goal"


@workflow.defn(name="DelegationLoop")
class DelegationLoop(ControlHandlers):
    """One run of a manager: it delegates work to child runs until the goal is reached."""

    @workflow.init
    def __init__(self, given: DelegationInput) -> None:
        self.run = DelegationRun(given)
        self.engine = Engine(self.run, requirements=DelegationRequirements(self.run))
        self.control = self.engine.control
        self.manager = ManagerDecisions(self.run, self.engine)
        self.skills = WorkerSkills(self.run, self.engine)
        self.tools = ToolFactory(self.run, self.engine)
        self.questions = Questions(self.run, self.engine)
        reviews = WorkReviews(self.run, self.engine)
        self.workers = WorkerRuns(
            self.run, self.engine, skills=self.skills, tools=self.tools, reviews=reviews
        )
        self.completion = CompletionChecks(self.run, self.engine, reviews)
        self.deliverables = DeliverableScore(
            self.run,
            self.engine,
            scorer=Scorer(self.engine, DeliverableScoring(self.run)),
            completion=self.completion,
        )

    @workflow.run
    async def execute(self, given: DelegationInput) -> RunResult:
        """Run to the result; `__init__` has taken the input."""
        return await self.engine.life.run_to_end(self._loop)

    async def _loop(self) -> RunResult:
        """Open, then decide and carry out, until a decision or a limit ends the run."""
        # A run that continued as new carries its frame and goes straight on with its stage.
        if self.run.state.frame is None:
            opened = await self.engine.setup.open(
                converses=False, extra=self.deliverables.frame_extra()
            )
            if isinstance(opened, Ending):
                return await self._close(opened)
            await self._shelve()
            if self.run.spec.workspace is not None or self.run.site.tree is not None:
                await self.skills.read_skills()
            await self.skills.offer_skills()
        while True:
            # The one place where this loop may continue as new: between two stages, with no child
            # open.
            ending = await self.engine.life.checkpoint() or await self._escalate_to_person()
            if ending is not None:
                return await self._cut_short(ending)
            await self._adopt_goal()
            ending = await self._step()
            if ending is not None:
                return await self._close(ending)

    async def _adopt_goal(self) -> None:
        """Write a new goal into the frame, where judges and hooks read it; the manager has it."""
        state, goal = self.run.state, self.run.state.control.goal
        if goal is None or not workflow.patched(JUDGED_BY_NEW_GOAL):
            return
        # Cleared before the step below: a goal that is set meanwhile is another one.
        state.control.goal = None
        report = await reframe(self.engine, state.frame or "", goal=goal, summary="new goal")
        if report is None:
            state.control.goal = state.control.goal or goal
        else:
            state.frame, state.task_tokens = report.frame, report.task_tokens

    async def _escalate_to_person(self) -> Ending | None:
        # At its end a run asks about that end, and may have continued as new while it waited.
        return None if self.run.state.stage == "end" else await self.questions.escalate_to_person()

    async def _step(self) -> Ending | None:
        """Run one stage. `state.stage` says where a run that continued as new goes on."""
        match self.run.state.stage:
            case "manage":
                ending = await self.tools.make_wanted() or await self._limits()
                if ending is not None:
                    return ending
                await self.manager.manage()
                self.run.state.stage = "obey"
                return None
            case "obey":
                # Continuing as new would end the children at work, and carrying the decision out
                # twice would pay for it twice. So the whole stage happens in one execution.
                verdict = await self.engine.rolling.run_in_one_piece(self._obey())
                return None if self._goes_on() else await self._conclude(verdict)
            case "ask":
                await self.questions.of_manager()
                return await self._conclude(None)
            case "rate":
                verdict = await self._rated()
                return None if self._asks() else await self._conclude(verdict)
            case "end":
                return await self._conclude(None)

    def _asks(self) -> bool:
        """Whether a question to people comes before the iteration is over."""
        return self.run.state.stage == "ask"

    def _goes_on(self) -> bool:
        """Whether people or the rubric come before the iteration is over."""
        return self.run.state.stage in {"ask", "rate"}

    async def _shelve(self) -> None:
        """Store long inputs as blobs, so that workers get a reference instead of a copy."""
        report = await workflow.execute_activity_method(
            Shelve.shelve,
            ShelveRequest(values=self.run.spec.context),
            **activity_options.store_step(self.run.site, summary="put inputs by"),
        )
        self.run.take_inputs(report)

    async def _limits(self) -> Ending | None:
        """The end before a further iteration: budget, clocks, permitted decisions."""
        limits = self.engine.limits
        planned = planned_end(self.run.state.course, self.run.spec.delegation)
        # An iteration that continued as new while people were asked goes on, also the last one.
        if planned is not None and not limits.within_iteration:
            return self.run.end_by(planned)
        return await limits.ask_or_end_if_spent()

    async def _obey(self) -> StallVerdict | None:
        """Apply the rules to the manager's decision and carry out what follows."""
        state, decision = self.run.state, self.run.state.turnover.decision
        if decision is None:
            return None
        phase, before = self.run.budget_phase, state.course.plan
        state.course, directive = decide(
            state.course,
            decision,
            settings=self.run.spec.delegation,
            phase=phase,
            unheard=self.run.unheard,
            beside=self.run.surroundings,
            by_plan=self.run.needs_subtask_matching(decision),
        )
        self.run.drop_given_up(before)
        self.run.record_event(
            "decided",
            decision=decision.decision,
            why=clipped_line(decision.reason, REASON_CHARACTERS) or NO_REASON,
        )
        return await self._follow(directive)

    async def _follow(self, directive: Directive) -> StallVerdict | None:
        state = self.run.state
        match directive:
            case Work(envelopes=envelopes):
                return await self._delegated(envelopes)
            case Test(hypotheses=hypotheses):
                await self._diagnosed(hypotheses)
            case Check(complete=complete):
                return await self._checked(complete)
            case AskPerson(question=question, choices=choices):
                state.question, state.choices, state.stage = question, choices, "ask"
            case End(verdict=verdict):
                state.turnover.ending = self.run.end_by(verdict)
            case Planned():
                self.run.record_event(
                    "planned",
                    steps=[
                        clipped_line(node.title, TITLE_CHARACTERS)
                        for node in state.course.plan.nodes
                    ],
                )
            case DecisionRefused(why=why):
                self.run.record_event(
                    "decided", decision="refused", why=clipped_line(why, REASON_CHARACTERS)
                )
            case AskAgain(problems=problems):
                self.run.inform(*problems)
            case _:
                assert_never(directive)
        return None

    async def _checked(self, complete: Complete) -> StallVerdict | None:
        """Run the completion checks. If they ask for a repair, do it at once."""
        following = await self.completion.check(complete)
        if isinstance(following, Rate):
            self.run.state.stage = "rate"
            return None
        return await self._after(following)

    async def _rated(self) -> StallVerdict | None:
        """Score by the rubric what passed the completion checks."""
        rubric = self.run.spec.rubric
        following = None if rubric is None else await self.deliverables.rate(rubric)
        if isinstance(following, Ending):
            self.run.state.turnover.ending = following
            return None
        return None if following is None else await self._after(following)

    async def _after(self, following: AfterCheck) -> StallVerdict | None:
        if isinstance(following, Repair):
            return await self.engine.rolling.run_in_one_piece(
                self._delegated((following.envelope,))
            )
        if (
            isinstance(following, End)
            and following.verdict.outcome == "accepted"
            and self.run.unheard
        ):
            self.run.inform(UNHEARD)
        elif isinstance(following, End):
            self.run.state.turnover.ending = self.run.end_by(following.verdict)
        return None

    async def _delegated(self, envelopes: tuple[Envelope, ...]) -> StallVerdict:
        """Have workers do the work, then measure progress."""
        # Read before the work: its workers were not shown what the work itself adds.
        state, beside = self.run.state, self.run.surroundings
        reports = await self.workers.work(envelopes)
        turnover = state.turnover
        turnover.reports = reports
        turnover.confidence = iteration_confidence(reports)
        turnover.tree = state.tree
        state.course, verdict = after_delegation(
            state.course,
            envelopes,
            reports,
            output=turnover.output.hash if turnover.output else None,
            similarity=turnover.similarity,
            settings=self.run.spec.delegation,
            beside=beside,
            deferred_counts=not self._spares_deferred(reports),
        )
        self._note_confidences()
        if verdict.signal == "warn":
            self.run.record_event("stall_warned", why=verdict.why)
        if verdict.signal == "switch_strategy":
            self.run.record_event("strategy_switched", strategy=verdict.strategy, why=verdict.why)
            if verdict.strategy == "escalate":
                state.question = f"The work is stuck: {verdict.why}. How should it go on?"
                state.choices, state.stage = (), "ask"
        return verdict

    def _spares_deferred(self, reports: Sequence[WorkerReport]) -> bool:
        """Whether work that has not begun leaves its subtask and the readings as they were."""
        has_deferred = any(report.end == "deferred" for report in reports)
        return has_deferred and workflow.patched(NEVER_BEGAN_LEAVES_ALL)

    def _note_confidences(self) -> None:
        """Show the confidence of each child's result in the list of children."""
        state = self.run.state
        known = {report.run: report.confidence for report in state.turnover.reports if report.run}
        state.children = [
            child.model_copy(update={"confidence": known[child.id]}) if child.id in known else child
            for child in state.children
        ]

    async def _diagnosed(self, hypotheses: tuple[Hypothesis, ...]) -> None:
        envelopes = [hypothesis_envelope(hypothesis) for hypothesis in hypotheses]
        reports = await self.workers.work(envelopes)
        self.run.state.turnover.reports = reports
        # Tests of hypotheses are no work on the task. As readings of its progress, they would make
        # a diagnosis look like a stall.
        self.run.state.turnover.output = self.run.state.turnover.results = None
        self.run.state.course = after_diagnosis(
            self.run.state.course, reports, settings=self.run.spec.delegation
        )

    async def _conclude(self, verdict: StallVerdict | None) -> Ending | None:
        """Judge the progress and close the iteration."""
        state, turnover = self.run.state, self.run.state.turnover
        # A stop or deadline during the work outranks what the rules of progress say.
        cut = self.run.ending() if turnover.ending is None else None
        if turnover.ending is None and cut is None and turnover.decision is not None:
            ended = progress_end(state.course, self.run.spec.delegation, verdict)
            # It may be news to a run that makes no progress, and puts off a completion as well.
            if ended is not None and self.run.unheard and workflow.patched(HEARS_FIRST):
                ended = None
            turnover.ending = self.run.end_by(ended) if ended is not None else None
        if turnover.ending is not None:
            # The stage is over: continued as new while people are asked, the run must not do its
            # work, or ask for its scores, a second time.
            state.stage = "end"
            turnover.ending = await self.questions.before_the_end(turnover.ending)
        self._fold()
        state.stage = "manage"
        return turnover.ending

    def _fold(self) -> None:
        """Update the best result and close the record; the next step writes it."""
        state = self.run.state
        if state.turnover.record is None:
            return
        keep_best(state)
        record = record_of(state)
        state.unwritten = [*state.unwritten, record]
        state.turnover.record = None
        self.run.append_record(record)
        self.run.sync_visibility()

    async def _cut_short(self, ending: Ending) -> RunResult:
        """End inside an iteration; what was done so far can still be the best result."""
        # Of an end that people were being asked about.
        self.run.state.verdict = ""
        if self.run.state.turnover.record is not None:
            self.run.state.turnover.ending = ending
        self._fold()
        return await self._close(ending)

    async def _close(self, ending: Ending) -> RunResult:
        """Return the best result, whatever ended the run."""
        state = self.run.state
        # The reserve pays for one last decision, so that the manager can say what it has. A person
        # who stopped the run did not ask for more spending.
        if ending.outcome == "out_of_budget" and self.run.demanded_ending() is None:
            await self.manager.wrap_up()
        settled = self.engine.life.settle_ending(ending)
        # A stop that arrived meanwhile replaces the ending, and its sentence with it.
        state.verdict = state.verdict if settled is ending else ""
        ending = settled
        kept = to_hand_over(state, ending)
        tree = await self.engine.snapshots.deliver(kept.tree if kept else None)
        result = delegation_result(
            state,
            run=self.run.id,
            spec=self.run.spec,
            ending=ending,
            wall_time=self.run.wall_time,
            tree=tree,
        )
        return await finish_and_learn(self.engine, result, tuple(state.unwritten))
