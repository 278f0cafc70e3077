"""The activities of an experiment: open the next run of a trial, and keep how it ended."""

from collections.abc import Callable
from datetime import datetime

from pydantic import JsonValue
from temporalio import activity

from perdure.activities.open_task import ReadTask
from perdure.activities.support.aside import Aside
from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Interrupted, within
from perdure.activities.support.run_storage import records_of
from perdure.activities.take_over import ChildSettling
from perdure.domain.budget.journal import Journal
from perdure.domain.evaluation.scores import weighted_mean
from perdure.domain.experiments import judging
from perdure.domain.experiments.labels import is_right
from perdure.domain.experiments.messages import (
    NoteExperimentRequest,
    OpenTrialReport,
    OpenTrialRequest,
    SettleTrialReport,
    SettleTrialRequest,
    StoredSpend,
    progress_of,
)
from perdure.domain.experiments.plan import Entry, Plan, trial_run_id, trial_task
from perdure.domain.experiments.store import ExperimentStore, StoredExperiment
from perdure.domain.experiments.trials import Trial, Try, another_try, try_of
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.foundation.retry_policies import CHECK_S
from perdure.domain.foundation.tolerance import read
from perdure.domain.ports import BlobStore, CheckRunner, RecordStore
from perdure.domain.run.activity_messages import SettleChildRequest
from perdure.domain.run.result import RunResult
from perdure.domain.run.task_start import OpenTaskRequest


class OpenTrial:
    """Opens runs of trials.

    Args:
        store: plans, inputs and trials.
        opening: opens their runs.
    """

    def __init__(self, store: ExperimentStore, opening: "TrialRuns") -> None:
        self._store = store
        self._opening = opening

    @activity.defn
    @translated
    async def open_trial(self, step: OpenTrialRequest) -> OpenTrialReport:
        """Open the run that the trial needs next; a repeat finds the row of the attempt before."""
        experiment = await require_experiment(self._store, step.experiment)
        plan, position = experiment.plan, experiment.plan.position(step.number)
        trial = await self._store.trial(step.experiment, step.number)
        if trial is not None and trial.ended:
            return OpenTrialReport()
        made = () if trial is None else trial.tries
        if made and (
            judging.is_open(plan, made[-1])
            or not await more_tries(self._store, step.experiment, plan, trial)
        ):
            # The experiment was terminated before it had settled this trial.
            return OpenTrialReport(run=made[-1].run)
        entry = await self._store.entry(step.experiment, position.entry)
        if entry is None:
            raise NotFound(f"The input {position.entry + 1} of {step.experiment} is not there.")
        task = trial_task(plan.arm(position.arm), entry, label=step.experiment)
        run = trial_run_id(step.experiment, position, len(made))
        return await self._opening.open(run, task, experiment=step.experiment)


class SettleTrial:
    """Keeps how runs of trials ended, with the score that no loop saw.

    Args:
        store: plans, inputs and trials.
        records: results of runs.
        journal: what a run without a result spent.
        blobs: outputs.
        checks: what runs held-out checks.
        aside: where they run.
        opening: opens the run of a judge.
    """

    def __init__(
        self,
        store: ExperimentStore,
        *,
        records: RecordStore,
        journal: Journal,
        blobs: BlobStore,
        checks: CheckRunner,
        aside: Aside,
        opening: "TrialRuns",
    ) -> None:
        self._store = store
        self._records = records
        self._settling = ChildSettling(journal=journal, records=records)
        self._blobs = blobs
        self._checks = checks
        self._aside = aside
        self._opening = opening

    @activity.defn
    @translated
    async def settle_trial(self, step: SettleTrialRequest) -> SettleTrialReport:
        """Keep how a run ended; a repeat gives the same."""
        experiment = await require_experiment(self._store, step.experiment)
        plan, position = experiment.plan, experiment.plan.position(step.number)
        reads = plan.arm(position.arm).counts_cache_reads
        ended = await self._ended(step.run, count_cache_reads=reads)
        output = await self._output(ended)
        records = await records_of(self._records, ended.id)
        one = try_of(ended, records, count_cache_reads=reads)
        one = one.model_copy(update={"empty": output is None})
        judge, judge_spend = None, SettleTrialReport()
        if plan.scoring.held_out and output is not None and not one.failed:
            entry = await self._store.entry(step.experiment, position.entry)
            if entry is None:
                raise NotFound(f"The input {position.entry + 1} of {step.experiment} is not there.")
            if plan.scoring.by != "judge":
                one = await self._scored(plan, entry, one, output)
            elif step.judge is None and judging.is_asked_about(one):
                task = judging.task(plan, entry, output, label=step.experiment)
                judge = await self._opening.open(
                    judging.run_id(step.run), task, experiment=step.experiment
                )
            elif step.judge is not None:
                verdict = await self._ended(step.judge)
                one = judging.judged(one, verdict, await self._output(verdict))
                judge_spend = SettleTrialReport(
                    cost_usd=verdict.spend.least_cost_usd, tokens=one.judge_tokens
                )
        new = Trial(
            number=step.number, arm=position.arm, entry=position.entry, repeat=position.repeat
        )
        more = await self._keep(plan, step, new, one, judged=judge is None)
        # After the try is kept, so that its spend is in the sum.
        whole = await stored_spend(self._store, step.experiment)
        if step.judge is not None:
            return judge_spend.model_copy(update={"more": more, "whole": whole})
        return SettleTrialReport(
            cost_usd=ended.spend.least_cost_usd,
            tokens=one.spent_tokens,
            more=more,
            judge=judge,
            whole=whole,
        )

    async def _keep(
        self, plan: Plan, step: SettleTrialRequest, new: Trial, one: Try, *, judged: bool
    ) -> bool:
        """Keep the try in its trial; whether another one follows."""
        trial = await self._store.trial(step.experiment, step.number) or new
        # A repeat of this step replaces what it wrote before.
        others = [other for other in trial.tries if other.run != one.run]
        # By length first: a run's id ends with the number of its try, and the tenth comes after the
        # ninth.
        tries = tuple(sorted((*others, one), key=lambda each: (len(each.run), each.run)))
        kept = trial.model_copy(update={"tries": tries})
        more = await more_tries(self._store, step.experiment, plan, kept)
        ended = judged and not more
        await self._store.put_trial(step.experiment, kept.model_copy(update={"ended": ended}))
        return more

    async def _ended(self, run: str, *, count_cache_reads: bool = False) -> RunResult:
        """The run's result; of one that was ended by force, what its journal says it spent."""
        row = await self._records.run(run)
        if row is not None and row.result is not None:
            return read(RunResult, row.result)
        asked = SettleChildRequest(child=run, root=run, count_cache_reads=count_cache_reads)
        report = await self._settling.settle(asked)
        return RunResult(
            id=run,
            kind="" if row is None else row.kind,
            outcome="failed",
            reason="terminated",
            explanation="It left no result: somebody ended it at the server.",
            spend=report.spend,
        )

    async def _output(self, result: RunResult) -> str | None:
        """The whole output; None where there is none, or nobody keeps it any more."""
        if result.output_ref is None:
            return None if result.excerpt else result.output
        try:
            return await self._blobs.get_text(result.output_ref)
        except NotFound:
            return None

    async def _scored(self, plan: Plan, entry: Entry, one: Try, output: str) -> Try:
        if plan.scoring.by == "labels":
            right = is_right(output, entry.expected)
            why = "" if right else "it is not the expected answer"
            return one.model_copy(update={"held_out": float(right), "why": why})
        rubric = plan.scoring.rubric
        if rubric is None:
            raise InvalidInput("the plan scores by a check and has none")
        work = self._aside(lambda: self._checks.evaluate(rubric, output, "whole"))
        ended = await within(work, seconds=CHECK_S)
        if isinstance(ended, Interrupted):
            return one.model_copy(update={"why": f"the check did not end within {CHECK_S:g} s"})
        scores = ended.value
        weights = {item.name: item.effective_weight for item in rubric.dimensions}
        known = [(weights[item.name], item.score) for item in scores if item.score is not None]
        why = "; ".join(item.gap for item in scores if item.gap)
        # A check that could not run gives no score: counting it as zero would blame the output.
        mean = weighted_mean(known) if len(known) == len(scores) else None
        score = None if mean is None else round(mean, 4)
        return one.model_copy(update={"held_out": score, "why": why[:400]})


class NoteExperiment:
    """Keeps how experiments stand."""

    def __init__(self, store: ExperimentStore, *, now: Callable[[], datetime]) -> None:
        self._store = store
        self._now = now

    @activity.defn
    @translated
    async def note_experiment(self, step: NoteExperimentRequest) -> StoredSpend | None:
        """Write the state into the row that lists and reports read; returns how far it is.

        None stands in histories: an earlier version returned nothing.
        """
        await self._store.note(step.experiment, step.state, reason=step.reason, at=self._now())
        # Known costs beside unknown ones too, as where an experiment is started again.
        known = progress_of(await self._store.trials(step.experiment))
        return StoredSpend(
            usd=known.spent_usd,
            tokens=known.spent_tokens,
            following=known.following,
            trials=(await require_experiment(self._store, step.experiment)).trials
            if step.counts
            else None,
        )


async def stored_spend(store: ExperimentStore, id: str) -> StoredSpend:
    """What the kept runs of an experiment spent."""
    totals = (await store.totals([id]))[id]
    return StoredSpend(usd=totals.spent_usd, tokens=totals.spent_tokens)


async def require_experiment(store: ExperimentStore, id: str) -> StoredExperiment:
    """An experiment; raises `NotFound` where somebody deleted it meanwhile."""
    experiment = await store.get(id)
    if experiment is None:
        raise NotFound(f"There is no experiment {id}.", cure="perdure experiment list")
    return experiment


async def more_tries(
    store: ExperimentStore, experiment: str, plan: Plan, trial: Trial | None
) -> bool:
    """Whether a trial makes another try."""
    if trial is None:
        return True
    beside = plan.beside(trial.number)
    other = None if beside is None else await store.trial(experiment, beside)
    return another_try(plan.arm(trial.arm).tries, trial.tries, other)


class TrialRuns:
    """Claims rows of runs and says how to start them; each is started once.

    Args:
        open_task: checks a task and claims its row.
        records: rows of runs.
    """

    def __init__(self, open_task: ReadTask, *, records: RecordStore) -> None:
        self._open = open_task
        self._records = records

    async def open(
        self, run: str, task: dict[str, JsonValue], *, experiment: str
    ) -> OpenTrialReport:
        """The run to start; without an input it has ended already, or its task was refused."""
        row = await self._records.run(run)
        if row is not None and row.result is not None:
            return OpenTrialReport(run=run)
        kind = str(task.get("kind", "agent"))
        # The execution is no part of it: an experiment that is started again finds its own runs.
        asked = OpenTaskRequest(kind=kind, task=task, chain=f"experiment:{experiment}:{run}")
        report = await self._open(run, asked)
        if report.result is not None:
            return OpenTrialReport(run=run)
        return OpenTrialReport(
            run=run, kind=kind, input=report.input, queue=report.queue, memo=report.memo
        )
