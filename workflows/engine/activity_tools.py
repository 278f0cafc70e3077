"""Tools that are foreign activities, scheduled by the loop on the queue of their owner.

Such a call takes three steps: one of ours reads and checks the arguments, the foreign activity
runs, and one of ours stores the result. Only the foreign one has an effect, so only that one
follows the retry policy of its owner.
"""

from collections.abc import Sequence
from dataclasses import replace

from pydantic import JsonValue
from pydantic_core import to_jsonable_python
from temporalio import workflow

from perdure.activities.tool_calls import EFFECT_UNCERTAIN, CallTool
from perdure.domain.foundation.json_extraction import with_named_numbers
from perdure.domain.llm.transcript import ToolOutcome
from perdure.domain.run.activity_messages import KeepResultRequest, ToolCallReport
from perdure.domain.tools.definitions import ActivityTarget
from perdure.domain.tools.unsent_results import why_unsent
from perdure.domain.turns.tool_call_rules import RequestedCall, ToolPolicy
from perdure.workflows.engine import activity_options
from perdure.workflows.engine.lost_worker_retries import is_owed
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import Completed, StepFailed, StepRunner

Ended = Completed[ToolCallReport] | StepFailed
NOT_RUN = "not_run"
READS = "read"
ENDED_BY_US = frozenset({"cancelled", "unresponsive"})
# Patch: a call failed if a worker was stopped while it read the arguments.
READ_AGAIN = "arguments of a foreign activity are read again"
# Patch: with its active time spent, a run still began the further calls of a reply.
NO_WAVE_WITHOUT_TIME = "no call begins once the time is spent"


def why_not_run(run: AnyRun) -> str:
    """What the model is told of a call that did not begin."""
    stopped = run.demanded_ending() is not None or run.ending() is None
    return f"not run: the {'run was stopped' if stopped else 'time of the run is spent'}"


class ActivityTools:
    """Runs the activities that are tools."""

    def __init__(self, run: AnyRun, steps: StepRunner) -> None:
        self.run = run
        self.steps = steps

    async def run_call(self, call: RequestedCall, terms: ToolPolicy, read: Ended) -> Ended:
        """Carry on with a call whose arguments were read.

        Args:
            call: what the model asked for.
            terms: name the activity, and how it is run.
            read: the end of the step that read the arguments.

        Returns:
            The end of the call; `unbegun` if the arguments are to be read once more.
        """
        if isinstance(read, StepFailed):
            if (read.lost or read.unreadable) and workflow.patched(READ_AGAIN):
                return replace(read, unbegun=True)
            code = read.code if read.code in ENDED_BY_US else NOT_RUN
            return StepFailed(read.activity_id, code, read.message)
        given = read.report.handed_over
        if given is None or terms.activity is None:
            return read  # refused, in words for the model
        ends = self.run.demanded_ending() is not None
        if ends or (self.run.ending() is not None and workflow.patched(NO_WAVE_WITHOUT_TIME)):
            return StepFailed("", "cancelled", why_not_run(self.run))
        begun = workflow.now()
        # Scheduled here and not inside a step of ours: then the server holds its owner to queue and
        # retry policy, whatever becomes of our workers.
        done = await call_foreign(
            self.run,
            self.steps,
            terms.activity,
            given,
            summary=f"{call.name} {call.label} (iteration {self.run.iteration})",
            timeout_s=terms.timeout_s,
        )
        seconds = (workflow.now() - begun).total_seconds()
        if isinstance(done, Completed):
            return await self._keep(call, "ok", done.report, seconds)
        if done.lost or done.code in ENDED_BY_US:
            return done
        outcome, words = _told(done, call.name, terms.access)
        return await self._keep(call, outcome, words, seconds)

    async def _keep(
        self, call: RequestedCall, outcome: ToolOutcome, value: JsonValue, seconds: float
    ) -> Ended:
        """Store the only trace of an effect, also of a run that is being stopped."""
        made = 0
        while True:
            made += 1
            activity_id = self.run.next_activity_id()
            handle = workflow.start_activity_method(
                CallTool.keep_result,
                KeepResultRequest(name=call.name, outcome=outcome, value=value, seconds=seconds),
                **activity_options.tool_call(
                    self.run.site,
                    activity_id=activity_id,
                    summary=f"keep what {call.name} gave",
                    timeout_s=self.run.site.timing.store,
                    idempotent=True,
                ),
            )
            kept = await self.steps.await_step(
                handle, activity_id=activity_id, patience=self.run.site.timing.store
            )
            if isinstance(kept, Completed):
                return kept
            if not kept.stopped or not is_owed(self.run, made):
                # The activity has run: an error would make the model call it again.
                return StepFailed(activity_id, EFFECT_UNCERTAIN, kept.message)


def _told(done: StepFailed, name: str, access: str) -> tuple[ToolOutcome, str]:
    """The outcome of an activity that failed, and the words for the model."""
    why = why_unsent(done.code, done.message, done.trace)
    if why is None:
        return "error", f"{name} failed with {done.code}: {done.message}"
    words = f"{name} ran, but {why}."
    if access == READS:
        return "error", words
    return "effect_uncertain", f"{words} Its effect is uncertain: look before you call it again."


async def call_foreign(
    run: AnyRun,
    steps: StepRunner,
    target: ActivityTarget,
    arguments: Sequence[JsonValue],
    *,
    summary: str,
    timeout_s: float,
) -> Completed[JsonValue] | StepFailed:
    """Schedule the activity on the queue of its owner; its value comes back as plain JSON."""
    activity_id = run.next_activity_id()
    handle: workflow.ActivityHandle[object] = workflow.start_activity(
        target.type,
        args=arguments,
        **activity_options.activity_tool(
            target, activity_id=activity_id, summary=summary, timeout_s=timeout_s
        ),
    )
    ended = await steps.await_step(handle, activity_id=activity_id, foreign=True)
    if isinstance(ended, StepFailed):
        return ended
    # The converter of a foreign client may make any object of a result, and a result is kept as
    # JSON; one that could not be written would fail the task of the run for ever.
    plain: JsonValue = to_jsonable_python(ended.report, fallback=repr, bytes_mode="base64")
    return Completed(with_named_numbers(plain))
