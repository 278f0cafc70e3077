"""The activity `call_tool`: run one call inside its grant, and store what it gave."""

from temporalio import activity

from activities.beating import Finished, Interrupted, within
from activities.frames import Frames
from activities.stopwatch import Stopwatch
from activities.translate import translated
from perdure.domain.errors import NotAllowed, NotFound
from perdure.domain.gates import arguments_hash
from perdure.domain.ports import BlobStore, ToolHost, TranscriptStore
from perdure.domain.steps import ToolCallReport, ToolCallRequest
from perdure.domain.termination import leading_number
from perdure.domain.tools import ToolEnvelope, ToolOutput
from perdure.domain.transcript import ToolUseBlock


class CallTool:
    """Runs tools; the arguments come from the transcript, never through history."""

    def __init__(
        self, *, blobs: BlobStore, transcripts: TranscriptStore, frames: Frames, host: ToolHost
    ) -> None:
        self._blobs = blobs
        self._transcripts = transcripts
        self._frames = frames
        self._host = host

    @activity.defn
    @translated
    async def call_tool(self, step: ToolCallRequest) -> ToolCallReport:
        """Run the call named by head and id; failures are results, not errors."""
        watch = Stopwatch()
        frame = await self._frames.load(step.frame)
        use = await self._find(step)
        envelope = ToolEnvelope(
            run=frame.run,
            call_id=use.id,
            idempotency_key=f"{frame.run}/{step.iteration}/{use.id}",
            name=use.name,
            arguments=use.arguments,
            conversation=step.head,
            timeout_s=step.timeout_s,
            iteration=step.iteration,
            stage=step.stage,
        )
        ended = await within(self._host.call(envelope, frame.grant), seconds=step.active_time_s)
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

    async def _find(self, step: ToolCallRequest) -> ToolUseBlock:
        messages = await self._transcripts.load(step.head)
        for message in reversed(messages):
            for use in message.tool_uses:
                if use.id == step.call_id:
                    return self._checked(use, step)
        raise NotFound(f"tool call {step.call_id} is not in transcript {step.head}")

    @staticmethod
    def _checked(use: ToolUseBlock, step: ToolCallRequest) -> ToolUseBlock:
        if arguments_hash(use.name, use.arguments) != step.args_hash:
            raise NotAllowed(
                f"tool call {use.id} ({use.name}) has other arguments than those decided on"
            )
        return use
