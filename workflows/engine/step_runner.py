"""Running one activity so that a person's stop and the run's deadline can end it.

The wait is on the activity and on the loop's interruption together; an interrupted step is
cancelled and then awaited, within a bound, for what it used.
"""

import asyncio
from dataclasses import dataclass
from typing import Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
)
from temporalio.exceptions import (
    TimeoutError as ActivityTimeout,
)
from temporalio.workflow import ActivityHandle

from perdure.domain.run.activity_messages import ModelFailure
from perdure.workflows.engine.resets import Resets
from perdure.workflows.engine.run import AnyRun

R = TypeVar("R")
LOST = "worker_lost"
STOPPED_WORKER = "worker_shutdown"


@dataclass(frozen=True, slots=True)
class Completed(Generic[R]):
    """The step reported."""

    report: R


@dataclass(frozen=True, slots=True)
class StepFailed:
    """The step ended without a report.

    `code` is the error's type, `worker_lost` or `cancelled`; `failure` is there when a model call
    said what it had used.
    """

    activity_id: str
    code: str
    message: str
    failure: ModelFailure | None = None

    @property
    def wants_again(self) -> ModelFailure | None:
        """What a model call failed with that may be made again under a new reservation."""
        failed = self.failure
        return failed if failed is not None and failed.again_after_s is not None else None

    @property
    def lost(self) -> bool:
        """Whether it ended with its worker, and nobody knows how far it had come."""
        return self.code in {LOST, STOPPED_WORKER}

    @property
    def stopped(self) -> bool:
        """Whether its worker was stopped on purpose: that counts against no step."""
        return self.code == STOPPED_WORKER


class StepRunner:
    """Awaits activities, and ends them when the run is interrupted."""

    def __init__(self, run: AnyRun, resets: Resets) -> None:
        self.run = run
        self.resets = resets

    async def wait_while_paused(self) -> bool:
        """Start no new step while paused; true when the wait ended because the run must end.

        Before anything else the older lives of a run that was reset are accounted for.
        """
        await self.resets.take_over()
        if self.run.mid_stage:
            return False
        if not self.run.state.control.paused or self.run.state.control.stop is not None:
            return False
        self.run.sync_visibility()
        await workflow.wait_condition(
            lambda: (
                not self.run.state.control.paused
                or self.run.state.control.stop is not None
                or self.run.interruption is not None
            )
        )
        self.run.sync_visibility()
        return self.run.state.control.paused

    async def await_step(
        self, handle: ActivityHandle[R], *, activity_id: str, patience: float = 0.0
    ) -> Completed[R] | StepFailed:
        """Await a step; end it when the loop is interrupted, and give it a bound to report.

        With `patience`, in seconds, an interruption lets the step go on for that long first.
        """
        interrupted = asyncio.create_task(
            workflow.wait_condition(lambda: self.run.interruption is not None)
        )
        await workflow.wait([handle, interrupted], return_when=asyncio.FIRST_COMPLETED)
        interrupted.cancel()
        if patience and not handle.done():
            await workflow.wait([handle], timeout=patience)
        if not handle.done():
            handle.cancel()
            timing = self.run.site.timing
            await workflow.wait([handle], timeout=timing.heartbeat + timing.stop_grace)
        if not handle.done():
            return StepFailed(
                activity_id, "unresponsive", "the step did not end when it was told to"
            )
        return await _read(handle, activity_id)


async def _read(handle: ActivityHandle[R], activity_id: str) -> Completed[R] | StepFailed:
    try:
        return Completed(await handle)
    except ActivityError as error:
        return _broken(error, activity_id)
    except asyncio.CancelledError:
        return StepFailed(activity_id, "cancelled", "the step was cancelled")


def _broken(error: ActivityError, activity_id: str) -> StepFailed:
    cause = error.cause
    match cause:
        case ApplicationError():
            return StepFailed(activity_id, cause.type or "error", cause.message, _failure(cause))
        case ActivityTimeout():
            kind = cause.type.name.lower() if cause.type else "unknown"
            return StepFailed(activity_id, LOST, f"the worker was lost (timeout: {kind})")
        case CancelledError():
            return StepFailed(activity_id, "cancelled", "the step was cancelled")
        case _:
            return StepFailed(activity_id, "error", str(cause or error))


def _failure(cause: ApplicationError) -> ModelFailure | None:
    if not (cause.type or "").startswith("model_") or not cause.details:
        return None
    return ModelFailure.model_validate(cause.details[0])


def opening_reason(step: StepFailed) -> str:
    """Why a run whose opening broke has failed."""
    return "invalid_input" if step.code in {"invalid_input", "not_found"} else "internal"
