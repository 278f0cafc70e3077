"""`Experiment`: runs the trials of a plan as child runs, a few at a time, within one budget.

The plan, the inputs and the results stand in the store; the history holds numbers and costs. It
continues as new between trials, when none is open: a child run would lose the one who waits for it.

An execution that was started from a copied input, or was reset, knows less than the store of what
was spent. It asks first.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from perdure.activities.experiments import NoteExperiment, OpenTrial, SettleTrial
from perdure.domain.experiments.messages import (
    ExperimentEnded,
    ExperimentInput,
    NoteExperimentRequest,
    OpenTrialReport,
    OpenTrialRequest,
    Progress,
    Resumption,
    SettleTrialReport,
    SettleTrialRequest,
    StoredSpend,
    TrialShape,
    fits,
    spent_with,
    stop_mode,
)
from perdure.domain.experiments.store import EndReason, ExperimentState
from perdure.domain.foundation.names import EXPERIMENT_WORKFLOW
from perdure.domain.run.status_views import unpictured
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.continue_as_new import AUTO_UPGRADE
from perdure.workflows.engine.input import Given
from perdure.workflows.experiment_runs import TrialRuns

# Replaying so many events takes a worker a third of a second, so the history is cut here.
EVENTS = 2_000
MISREAD_CHARACTERS = 500

# Patches. An experiment that begins again asks what it spent before it starts a trial.
ASKS_FIRST = "asks-what-was-spent"
# `resume` takes back a graceful stop; it was overlooked while the end was noted.
RESUME_ENDS_STOP = "resume-ends-stop"
# A judge starts only where the budget pays for it.
HOLDS_JUDGES = "holds-judges"
# Where a price is unknown the store's tokens count too; a run settled again was counted twice.
STORED_TOKENS = "stored-tokens-without-price"
# The store knows which trials are left, those behind and those ahead.
LOOKS_FOR_LEFT = "looks-for-trials-that-are-left"
# A signal that spoke of more trials than there are inputs for was believed.
COUNTS_TRIALS = "counts-trials"
# A stop with a mode, as the loops take it, was a graceful one.
READS_MODES = "reads-modes-of-stops"


@workflow.defn(name=EXPERIMENT_WORKFLOW)
class Experiment(Given):
    """Signals `pause`, `resume`, `stop` and `extend`; the query `progress`."""

    @workflow.init
    def __init__(self, given: ExperimentInput) -> None:
        self.given = given
        self.state = given.progress
        self.trials = self.counted = given.trials
        self.budget = given.budget
        self.heard = 0  # signals
        self.misread = ""  # the newest of them that could not be read
        self.first = given.progress.following
        self.running: dict[int, asyncio.Task[None]] = {}
        self.runs = TrialRuns(lambda: self.state.stopping == "now")
        self.ended: set[int] = set()
        self.reserved: dict[int, TrialShape] = {}
        self.resumed = False  # since a trial was left open
        self.noted: ExperimentState = "paused" if given.progress.paused else "running"
        self.unsure = workflow.info().continued_run_id is None
        workflow.register_random_seed_callback(self._reseeded)  # how a reset shows

    @workflow.run
    async def execute(self, given: ExperimentInput) -> ExperimentEnded:
        """Run to the result; `__init__` has taken the input."""
        # A task of its own: a cancellation from outside, which is how people end workflows in the
        # Web UI, hits this coroutine, and the work goes on to its end.
        work = asyncio.ensure_future(self._work())
        while not work.done():
            try:
                await workflow.wait([work])
            except asyncio.CancelledError:
                self._stop("now")
        reason = work.result()
        report = ExperimentEnded(
            id=given.id,
            reason=reason,
            trials=self.state.ended,
            spent_usd=self.state.spent_usd,
            spent_tokens=self.state.spent_tokens,
        )
        if reason == "failed":
            raise ApplicationError(self.state.problem, report, type="failed", non_retryable=True)
        return report

    @workflow.signal(name="pause", description="Start no further trial; what runs goes on.")
    def on_pause(self, *_: object) -> None:
        """Start no further trial."""
        self.heard += 1
        self.state = self.state.model_copy(update={"paused": True})

    @workflow.signal(
        name="resume",
        description='Go on after a pause or a stop; {"cost_usd": 10, "tokens": 100000} is what all '
        "runs may spend.",
    )
    def on_resume(self, *given: object) -> None:
        """Go on after `pause` or `stop`, perhaps with another budget and more trials."""
        self.heard += 1
        self.resumed = self.state.unpaid
        self.state = self.state.model_copy(update={"paused": False})
        if self.state.stopping and workflow.patched(RESUME_ENDS_STOP):
            self.state = self.state.model_copy(update={"stopping": ""})
        for each in given:
            told = Resumption.of(each)
            if isinstance(told, str):
                self._misread(f"resume: {told}")
                continue
            self.budget = told.over(self.budget)
            self.trials = max(self.trials, told.trials)

    @workflow.signal(
        name="stop", description='End it. {"mode": "now"} also stops the runs that are open.'
    )
    def on_stop(self, *given: object) -> None:
        """Start nothing more; with `now`, stop what runs as well."""
        self.heard += 1
        mode = stop_mode(given)
        if mode == "now" and "now" not in given and not workflow.patched(READS_MODES):
            mode = "graceful"
        self._stop(mode)

    @workflow.signal(name="extend", description="There are more trials: how many in all.")
    def on_extend(self, *given: object) -> None:
        """Take the trials of inputs that were added; fewer than there are change nothing."""
        self.heard += 1
        for trials in given:
            if isinstance(trials, int) and not isinstance(trials, bool):
                self.trials = max(self.trials, trials)
            else:
                self._misread(f"extend: found {trials!r}; allowed: how many trials there are")

    @workflow.query(name="progress", description="How far it is.")
    def see_progress(self, *_: object) -> Progress:
        """How far it is."""
        return self.state.model_copy(update={"running": tuple(sorted(self.running))})

    def _misread(self, why: str) -> None:
        self.misread = unpictured(why[:MISREAD_CHARACTERS])
        self._show()

    def _reseeded(self, seed: int) -> None:
        self.unsure = True

    def _stop(self, mode: str) -> None:
        if self.state.stopping != "now":
            self.state = self.state.model_copy(update={"stopping": mode})

    async def _work(self) -> EndReason:
        """Start trials while there are any, and wait for them."""
        while True:
            if self.unsure and workflow.patched(ASKS_FIRST):
                self.unsure = False
                await self._note(self.noted)
            await self._count_trials()
            await self._note_pause()
            self._begin_some()
            if self.state.stopping == "now":
                await self.runs.stop_children()
            if not self.running:
                reason = self._over()
                if (self.resumed or reason == "budget") and await self._finds_left():
                    continue
                if reason is not None:
                    if await self._end(reason):
                        return reason
                    continue
                if self._is_long():
                    self._continue_as_new()
            seen, stood = self._sight(), set(self.runs.children)
            # A trial may have ended while something above was awaited, so ask for ended ones, and
            # not whether their number changes.
            await workflow.wait_condition(
                lambda seen=seen, stood=stood: (
                    any(task.done() for task in self.running.values())
                    or self._sight() != seen
                    or (self.state.stopping == "now" and set(self.runs.children) != stood)
                )
            )
            self._collect()

    async def _count_trials(self) -> None:
        """Believe no signal that speaks of more trials than there are inputs for."""
        while self.trials > self.counted and workflow.patched(COUNTS_TRIALS):
            told = self.trials
            stored = await self._note(self.noted, counts=True)
            if stored is None or stored.trials is None:  # a worker of an older version counts none
                self.counted = told
                continue
            self.counted = stored.trials
            # What arrived meanwhile may be newer than what was counted.
            if self.trials == told:
                self.trials = min(told, stored.trials)

    async def _finds_left(self) -> bool:
        """Go to the first trial that has not ended; False where it is the one that does not fit."""
        # Trials behind were left open, and only a resumption pays for them.
        if not workflow.patched(LOOKS_FOR_LEFT):
            return False
        heard = self.heard
        stored = await self._note(self.noted)
        left = None if stored is None else stored.following
        if left is not None and (self.resumed or left > self.state.following):
            self.resumed, self.first, self.ended = False, left, set()
            found = {"following": left, "ended": left, "unpaid": False}
            self.state = self.state.model_copy(update=found)
            return True
        return self.heard != heard

    async def _end(self, reason: EndReason) -> bool:
        """Note the end; False where something was heard meanwhile, which may change it."""
        heard = self.heard
        # So that an experiment that goes on after all is noted as running again.
        self.noted = "ended"
        await self._note("ended", reason)
        return self.heard == heard

    def _sight(self) -> tuple[object, ...]:
        """What the loop acts on besides ended trials: it looks again when this changes."""
        state = self.state
        return (
            state.paused, state.stopping, state.problem, self.trials, self.budget, self.unsure
        )  # fmt: skip

    def _begin_some(self) -> None:
        state = self.state
        if state.paused or state.stopping or state.problem or self._is_long():
            return
        while len(self.running) < self.given.parallel and self.state.following < self.trials:
            number = self.state.following
            if not self._hold(number, self._shape(number)):
                return
            self.running[number] = asyncio.create_task(self._trial(number))
            self.state = self.state.model_copy(update={"following": number + 1})

    def _over(self) -> EndReason | None:
        """Why nothing is left to do, while no trial runs."""
        if self.state.problem:
            return "failed"
        if self.state.stopping == "now":
            return "stopped"
        if self.state.following >= self.trials:
            return "budget" if self.state.unpaid else "completed"
        if self.state.stopping:
            return "stopped"
        following = self.state.following
        if not self.state.paused and not self._fits(following, self._shape(following)):
            return "budget"
        return None

    def _shape(self, number: int) -> TrialShape:
        return self.given.per_input[number % len(self.given.per_input)]

    def _hold(self, number: int, shape: TrialShape) -> bool:
        """Set aside what a trial may spend from here on; False where the budget lacks it."""
        if not self._fits(number, shape):
            return False
        self.reserved[number] = shape
        return True

    def _fits(self, number: int, shape: TrialShape) -> bool:
        """Whether the budget pays for what a trial may spend, whatever all open runs may spend."""
        held = (self.reserved | {number: shape}).values()
        return fits(self.budget, held, self.state, newest=shape)

    async def _trial(self, number: int) -> None:
        """All runs of one trial, one after another."""
        waits = self._shape(number).waits
        try:
            if waits is not None:
                other = number - waits
                # Trials before the first of this execution have ended: none is open when it
                # continues as new.
                await workflow.wait_condition(lambda: other in self.ended or other < self.first)
            more = True
            while more and not self.state.problem:
                opened = await self._open(number)
                if opened.run is None:
                    break
                if not await self._run(number, opened):
                    break
                settled = await self._settle(number, opened.run)
                if settled.judge is not None and settled.judge.run is not None:
                    judge = self._shape(number).judge
                    if workflow.patched(HOLDS_JUDGES) and not self._holds_more(number, judge):
                        break
                    if not await self._run(number, settled.judge):
                        break
                    settled = await self._settle(number, opened.run, judge=settled.judge.run)
                more = settled.more and self.state.stopping != "now"
                more = more and self._holds_more(number, self._shape(number))
        except ActivityError as error:
            cause = error.cause
            told = str(cause if cause is not None else error)[:400]
            self.state = self.state.model_copy(update={"problem": f"trial {number + 1}: {told}"})

    def _holds_more(self, number: int, shape: TrialShape) -> bool:
        """Set aside its next run; where the budget lacks it, the trial stays open."""
        held = self._hold(number, shape)
        self.state = self.state.model_copy(update={"unpaid": self.state.unpaid or not held})
        return held

    async def _open(self, number: int) -> OpenTrialReport:
        return await workflow.execute_activity_method(
            OpenTrial.open_trial,
            OpenTrialRequest(experiment=self.given.id, number=number),
            **activity_options.store_step(self.given.site, summary=f"open trial {number + 1}"),
        )

    async def _run(self, number: int, opened: OpenTrialReport) -> bool:
        return await self.runs.run(opened, lambda: self._open(number))

    async def _settle(
        self, number: int, run: str, *, judge: str | None = None
    ) -> SettleTrialReport:
        report = await workflow.execute_activity_method(
            SettleTrial.settle_trial,
            SettleTrialRequest(experiment=self.given.id, number=number, run=run, judge=judge),
            **activity_options.scoring_step(self.given.site, summary=f"settle {run}"),
        )
        whole = report.whole
        if whole is not None and whole.usd is None and not workflow.patched(STORED_TOKENS):
            report = report.model_copy(update={"whole": None})
        self.state = spent_with(self.state, report)
        return report

    def _collect(self) -> None:
        for number, task in list(self.running.items()):
            if task.done():
                del self.running[number], self.reserved[number]
                self.ended.add(number)
                # Raises what no trial expects: the task then fails, and is tried again.
                task.result()
                self.state = self.state.model_copy(update={"ended": self.state.ended + 1})

    async def _note_pause(self) -> None:
        wanted: ExperimentState = "paused" if self.state.paused else "running"
        if wanted != self.noted:
            self.noted = wanted
            await self._note(wanted)
        self._show()

    def _show(self) -> None:
        far = (
            f"{self.state.ended} of {self.trials} trials, {self.state.spent_tokens} tokens, "
            f"${self.state.spent_usd:f}"
        )
        misread = f"\n\nNot understood, and without effect: {self.misread}" if self.misread else ""
        workflow.set_current_details(f"{far}{misread}")

    async def _note(
        self, state: ExperimentState, reason: EndReason = "", *, counts: bool = False
    ) -> StoredSpend | None:
        spent = await workflow.execute_activity_method(
            NoteExperiment.note_experiment,
            NoteExperimentRequest(
                experiment=self.given.id, state=state, reason=reason, counts=counts
            ),
            **activity_options.store_step(self.given.site, summary=f"the experiment is {state}"),
        )
        if spent is not None:
            self.state = spent.known(self.state)
        return spent

    def _is_long(self) -> bool:
        info = workflow.info()
        return (
            info.get_current_history_length() > EVENTS
            or info.is_continue_as_new_suggested()
            or info.is_target_worker_deployment_version_changed()
        )

    def _continue_as_new(self) -> None:
        workflow.continue_as_new(
            self.given.model_copy(
                update={"progress": self.state, "trials": self.trials, "budget": self.budget}
            ),
            initial_versioning_behavior=AUTO_UPGRADE,
        )
