"""The activity `call_tool`: run one call inside its grant, and store what it gave."""

from temporalio import activity

from activities.asked_calls import AskedCalls
from activities.beating import Finished, Interrupted, within
from activities.frames import Frames
from activities.stopwatch import Stopwatch
from activities.translate import translated
from perdure.domain.ports import BlobStore, ToolHost, TranscriptStore
from perdure.domain.steps import ToolCallReport, ToolCallRequest
from perdure.domain.termination import leading_number
from perdure.domain.tools import ToolOutput


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
        ref = await self._blobs.put_text(given.text) if given.text else None
        return ToolCallReport(
            outcome=given.outcome,
            ref=ref,
            code=given.code,
            seconds=watch.seconds,
            number=leading_number(given.text) if given.outcome == "ok" else None,
        )
