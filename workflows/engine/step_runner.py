"""Running one activity so that a stop or the deadline can end it.

The loop waits for the activity and for an interruption at once. An interrupted step is cancelled,
and gets a limited time to report what it used.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeout
from temporalio.workflow import ActivityHandle

from perdure.domain.foundation.errors import FolderGone
from perdure.domain.foundation.retry_policies import LOST_WORKERS
from perdure.domain.foundation.tolerance import read_value
from perdure.domain.run.activity_messages import ModelFailure
from perdure.domain.run.control import note_refused
from perdure.domain.run.message_forms import UnreadableReport
from perdure.workflows.engine.resets import Resets
from perdure.workflows.engine.run import AnyRun

R = TypeVar("R")
LOST = "worker_lost"
STOPPED_WORKER = "worker_shutdown"
NOT_TAKEN = "not_taken"
UNREADABLE = "unreadable_result"
FOLDER_GONE = FolderGone.code


@dataclass(frozen=True, slots=True)
class Completed(Generic[R]):
    """The report of a step that succeeded."""

    report: R


@dataclass(frozen=True, slots=True)
class StepFailed:
    """The step ended without a report.

    `code` is the error's type, `worker_lost` or `cancelled`; `failure` is there when a model call
    said what it had used. The last attempt of a lost step that is `unheard` sent no heartbeat: the
    server gave it to a worker that it could not reach, or whose network was gone. `trace` is the
    traceback of its worker, if there was one. A tool call is `unbegun` if this step only prepared
    it.
    """

    activity_id: str
    code: str
    message: str
    failure: ModelFailure | None = None
    unheard: bool = False
    trace: str = ""
    unbegun: bool = False

    @property
    def retryable_failure(self) -> ModelFailure | None:
        """What a model call failed with that may be made again under a new reservation."""
        failed = self.failure
        return failed if failed is not None and failed.again_after_s is not None else None

    @property
    def lost(self) -> bool:
        """Whether its worker was lost, so that nobody knows how far it got."""
        return self.code in {LOST, STOPPED_WORKER}

    @property
    def unreadable(self) -> bool:
        """Whether somebody completed it by hand with what is no report of it."""
        return self.code == UNREADABLE

    @property
    def not_taken(self) -> bool:
        """Whether no worker of its host took it, or found the working folder: it has not begun."""
        return self.code in {NOT_TAKEN, FOLDER_GONE}

    @property
    def may_be_repeated(self) -> bool:
        """Whether it left no result through no fault of its own."""
        return self.lost or self.not_taken or self.unreadable

    def is_repeated(self, *, idempotent: bool) -> bool:
        """Whether a tool call that ended so is made again: without a second effect."""
        return self.not_taken or (self.may_be_repeated and (idempotent or self.unbegun))

    @property
    def homeless(self) -> bool:
        """Whether its host is there, and the working folder is not."""
        return self.code == FOLDER_GONE

    @property
    def stopped(self) -> bool:
        """Whether its worker was stopped on purpose, which is no fault of the step."""
        return self.code == STOPPED_WORKER


class StepRunner:
    """Awaits activities, and ends them when the run is interrupted."""

    def __init__(self, run: AnyRun, resets: Resets) -> None:
        self.run = run
        self.resets = resets

    async def wait_while_paused(self) -> bool:
        """Wait while the run is paused, before a new step; true if the run must end.

        A run that was reset takes over from its older executions first.
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

    async def leave_alone(self, seconds: float) -> None:
        """Wait as long as a provider wants before it is asked again; an interruption ends it."""
        with suppress(TimeoutError):
            await workflow.wait_condition(
                lambda: (
                    self.run.state.control.stop is not None or self.run.interruption is not None
                ),
                timeout=seconds,
                timeout_summary="the provider is asked again",
            )

    async def await_step(
        self,
        handle: ActivityHandle[R],
        *,
        activity_id: str,
        patience: float = 0.0,
        foreign: bool = False,
    ) -> Completed[R] | StepFailed:
        """Await a step. An interruption cancels it and gives it a limited time to report.

        With `patience`, in seconds, the step may go on for that long before it is cancelled. Only a
        `foreign` step may report nothing.
        """
        # Not `asyncio.wait_for`: around an activity it returns the late value, and the limit passes
        # unseen.
        interrupted = asyncio.create_task(
            workflow.wait_condition(lambda: self.run.interruption is not None)
        )
        await workflow.wait([handle, interrupted], return_when=asyncio.FIRST_COMPLETED)
        # Else its condition would be looked at in each further task of the run.
        interrupted.cancel()
        if patience and not handle.done():
            await workflow.wait([handle], timeout=patience)
        if not handle.done():
            # Cancelling reaches a step with its next heartbeat; then it has the grace to report
            # what it used. Only after both is it given up.
            handle.cancel()
            timing = self.run.site.timing
            await workflow.wait([handle], timeout=timing.heartbeat + timing.stop_grace)
        if not handle.done():
            return StepFailed(
                activity_id, "unresponsive", "the step did not end when it was told to"
            )
        ended = await _read(handle, activity_id)
        if isinstance(ended, Completed) and ended.report is None and not foreign:
            nothing = "found nothing; a step reports with an object"
            ended = StepFailed(activity_id, UNREADABLE, nothing)
        if isinstance(ended, StepFailed) and ended.unreadable:
            note_refused(self.run.state.control, f"result of step {activity_id}", ended.message)
            self.run.panel_is_stale = True
        return ended


async def _read(handle: ActivityHandle[R], activity_id: str) -> Completed[R] | StepFailed:
    try:
        report = await handle
    except ActivityError as error:
        return _broken(error, activity_id)
    except asyncio.CancelledError:
        return StepFailed(activity_id, "cancelled", "the step was cancelled")
    if isinstance(report, UnreadableReport):
        return StepFailed(activity_id, UNREADABLE, report.why)
    return Completed(report)


def _broken(error: ActivityError, activity_id: str) -> StepFailed:
    cause = error.cause
    match cause:
        case ApplicationError():
            return StepFailed(
                activity_id,
                cause.type or "error",
                cause.message,
                _failure(cause),
                trace=cause.failure.stack_trace if cause.failure else "",
            )
        case ActivityTimeout(type=TimeoutType.SCHEDULE_TO_START):
            message = "no worker of the host that has the working folder took the step"
            return StepFailed(activity_id, NOT_TAKEN, message)
        case ActivityTimeout():
            kind = cause.type.name.lower() if cause.type else "unknown"
            message = f"the worker was lost (timeout: {kind})"
            return StepFailed(activity_id, LOST, message, unheard=_unheard(cause))
        case CancelledError():
            return StepFailed(activity_id, "cancelled", "the step was cancelled")
        case _:
            return StepFailed(activity_id, "error", str(cause or error))


def _unheard(cause: ActivityTimeout) -> bool:
    """Whether the newest heartbeat is none of the last attempt's."""
    if cause.type != TimeoutType.HEARTBEAT:
        return False
    # The server gives a step that asks a person in the end exactly that many attempts.
    attempts = [one for one in cause.last_heartbeat_details if isinstance(one, int)]
    return attempts[-1:] != [LOST_WORKERS]


def _failure(cause: ApplicationError) -> ModelFailure | None:
    if not (cause.type or "").startswith("model_") or not cause.details:
        return None
    return read_value(ModelFailure, cause.details[0])


def opening_reason(step: StepFailed) -> str:
    """The reason of a run whose opening failed."""
    return "invalid_input" if step.code in {"invalid_input", "not_found"} else "internal"
