"""How an experiment stands, from its row, its trials and its workflow."""

from temporalio.client import WorkflowExecutionDescription, WorkflowExecutionStatus

from perdure.domain.experiments.messages import Progress
from perdure.domain.experiments.plan import ExperimentBudget
from perdure.domain.experiments.status import ExperimentStatus
from perdure.domain.experiments.store import StoredExperiment, Totals, UnreadableExperiment

TRIED = 4
WORDS = 300


def experiment_status(
    stored: StoredExperiment, totals: Totals, progress: Progress | None
) -> ExperimentStatus:
    """The status; without progress, as the row and the trials tell."""
    paused = progress is not None and progress.paused and stored.state == "running"
    return ExperimentStatus(
        id=stored.id,
        name=stored.plan.name,
        state="paused" if paused else stored.state,
        reason=stored.reason,
        arms=tuple(arm.name for arm in stored.plan.arms),
        inputs=stored.inputs,
        repeats=stored.plan.repeats,
        trials=stored.trials,
        ended=totals.ended,
        running=0 if progress is None else len(progress.running),
        spent_usd=totals.spent_usd,
        spent_tokens=totals.spent_tokens,
        budget=stored.plan.budget,
        problem="" if progress is None else progress.problem,
        created_at=stored.created_at,
        ended_at=stored.ended_at,
    )


def unreadable_status(row: UnreadableExperiment) -> ExperimentStatus:
    """What the row of an experiment tells without its plan."""
    return ExperimentStatus(
        **row.model_dump(exclude={"why"}),
        arms=(),
        repeats=1,
        trials=0,
        ended=0,
        budget=ExperimentBudget(),
        problem=row.why,
    )


def failing_step(described: WorkflowExecutionDescription) -> str:
    """Why a step is retried again and again; empty if none is."""
    for step in described.raw_description.pending_activities:
        if step.attempt >= TRIED and step.last_failure.message:
            told = step.last_failure.message[:WORDS]
            return f"{step.activity_type.name} failed {step.attempt - 1} times: {told}"
    return ""


def ended_outside(id: str, described: WorkflowExecutionDescription) -> str:
    """That somebody ended the workflow of an open experiment at the server; empty if it runs."""
    status = described.status
    if status is None or status == WorkflowExecutionStatus.RUNNING:
        return ""
    return (
        f"its workflow was {status.name.lower().replace('_', ' ')} at the server; go on with "
        f"perdure experiment resume {id}, or end it with perdure experiment stop {id}"
    )
