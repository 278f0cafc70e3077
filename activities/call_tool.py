"""The activity `call_tool`: run one call inside its grant, and store what it gave."""

from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure.activities.support.context_cache import Frames
from perdure.activities.support.error_mapping import translated
from perdure.activities.support.heartbeat import (
    Finished,
    Interrupted,
    cancelled_by_shutdown,
    to_the_end,
    within,
)
from perdure.activities.support.requested_calls import AskedCalls
from perdure.activities.support.timer import Stopwatch
from perdure.domain.evaluation.termination import leading_number
from perdure.domain.foundation.errors import PerdureError, StoreAway
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.ports import BlobStore, ToolHost, TranscriptStore
from perdure.domain.run.activity_messages import ToolCallReport, ToolCallRequest
from perdure.domain.tools.definitions import ToolOutput, in_brief

EFFECT_UNCERTAIN = "effect_uncertain"


class CallTool:
    """Runs tools; the arguments come from the transcript, never through history."""

    def __init__(
        self, *, blobs: BlobStore, transcripts: TranscriptStore, frames: Frames, host: ToolHost
    ) -> None:
        self._blobs = blobs
        self._calls = AskedCalls(transcripts=transcripts, frames=frames)
        self._host = host

    @activity.defn
    @translated
    async def call_tool(self, step: ToolCallRequest) -> ToolCallReport:
        """Run the call named by head and id; failures are results, not errors."""
        watch = Stopwatch()
        envelope, grant = await self._calls.find(step)
        ended = await within(self._host.call(envelope, grant), seconds=step.active_time_s)
        match ended:
            case Finished(value=output):
                given = output
            case Interrupted(by=reason):
                given = ToolOutput(outcome="interrupted", text=f"[ended early: {reason}]")
        return ToolCallReport(
            outcome=given.outcome,
            ref=await to_the_end(self._kept(step.name, given.text)) if given.text else None,
            code=given.code,
            seconds=watch.seconds,
            number=leading_number(given.text) if given.outcome == "ok" else None,
            told=in_brief(storable(given.text)),
            held=given.held,
        )

    async def _kept(self, name: str, text: str) -> BlobRef:
        """Store what a tool gave: it has run, and this is the only word of its effect.

        The store is waited for with the result in hand. Where that fails for good, an attempt that
        may not be repeated ends as an uncertain effect, never as an error to be tried again.
        """
        try:
            return await self._blobs.put_text(storable(text))
        except PerdureError as error:
            if isinstance(error, StoreAway) and cancelled_by_shutdown():
                raise  # told as what it is: a call that may be repeated is made again
            raise ApplicationError(
                f"{name} has run, and its result could not be stored: {error}",
                type=EFFECT_UNCERTAIN,
            ) from error


def storable(text: str) -> str:
    """The text with a question mark for what no text file can hold (lone surrogates)."""
    return text.encode("utf-8", "replace").decode()
