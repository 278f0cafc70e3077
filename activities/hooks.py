"""The activity `run_hook`: call a user's function between iterations, or at the end of a run."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import Stopwatch
from perdure.activities.support.run_storage import Frames
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.tolerance import read
from perdure.domain.ports import BlobStore, HookRunner
from perdure.domain.run.hooks import EndFacts, HookReport, HookRequest, IterationFacts
from perdure.domain.run.result import RunResult


class RunHook:
    """Calls hooks at least once: an attempt whose worker was lost may have had its effect."""

    def __init__(self, *, blobs: BlobStore, frames: Frames, hooks: HookRunner) -> None:
        self._blobs = blobs
        self._frames = frames
        self._hooks = hooks

    @activity.defn
    @translated
    async def run_hook(self, step: HookRequest) -> HookReport:
        """Gather the facts from the store, and call the hook."""
        watch = Stopwatch()
        facts = await self._facts(step)
        adaptation = await self._hooks.run(step.hook, facts)
        return HookReport(adaptation=adaptation, seconds=watch.seconds)

    async def _facts(self, step: HookRequest) -> IterationFacts | EndFacts:
        # A run that could not be opened has no frame, and its end is told all the same.
        frame = None if step.frame is None else await self._frames.load(step.frame)
        goal = step.goal if frame is None else frame.goal
        inputs = {} if frame is None else frame.inputs
        if step.record is not None:
            record = step.record
            return IterationFacts(
                run=step.run,
                kind=step.loop,
                goal=goal,
                inputs=inputs,
                iteration=record.index,
                output=await self._text(record.output_ref),
                decision=record.decision,
                score=record.score,
                scores={name: item.score for name, item in record.dimensions.items()},
                findings=record.findings,
                adaptation=step.adaptation,
                record=record.model_dump(mode="json"),
                idempotency_key=step.key,
            )
        if step.result is None:
            raise InvalidInput(f"The hook {step.hook.name} was given neither iteration nor result.")
        result = read(RunResult, step.result)
        whole = await self._text(result.output_ref)
        output = result.output if whole is None else whole
        return EndFacts(
            run=step.run,
            kind=step.loop,
            goal=goal,
            inputs=inputs,
            outcome=result.outcome,
            reason=result.reason,
            output=output,
            result=result.model_dump(mode="json"),
            idempotency_key=step.key,
        )

    async def _text(self, address: str | None) -> str | None:
        return None if address is None else await self._blobs.get_text(address)
