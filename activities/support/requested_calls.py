"""Finding a call in the conversation that asked for it; its arguments never travel in history."""

from perdure.activities.support.context_cache import Frames
from perdure.domain.foundation.errors import NotAllowed, NotFound
from perdure.domain.llm.transcript import ToolUseBlock
from perdure.domain.ports import TranscriptStore
from perdure.domain.run.activity_messages import ToolCallRequest
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation, arguments_hash


class AskedCalls:
    """Reads calls as they were decided on."""

    def __init__(self, *, transcripts: TranscriptStore, frames: Frames) -> None:
        self._transcripts = transcripts
        self._frames = frames

    async def find(self, step: ToolCallRequest) -> tuple[ToolInvocation, ToolGrant]:
        """The call named by head and id, and what it may touch.

        Raises:
            NotFound: the conversation has no such call.
            NotAllowed: its arguments are others than those decided on.
        """
        frame = await self._frames.load(step.frame)
        use = await self._use(step)
        envelope = ToolInvocation(
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
        return envelope, frame.grant

    async def _use(self, step: ToolCallRequest) -> ToolUseBlock:
        messages = await self._transcripts.load(step.head)
        for message in reversed(messages):
            for use in message.tool_uses:
                if use.id == step.call_id:
                    return _checked(use, step)
        raise NotFound(f"tool call {step.call_id} is not in transcript {step.head}")


def _checked(use: ToolUseBlock, step: ToolCallRequest) -> ToolUseBlock:
    if arguments_hash(use.name, use.arguments) != step.args_hash:
        raise NotAllowed(
            f"tool call {use.id} ({use.name}) has other arguments than those decided on"
        )
    return use
