"""The activities `check_call` and `call_tool`: check a requested tool call, or run it."""

import asyncio
import time
from dataclasses import dataclass

from temporalio import activity
from temporalio.exceptions import ApplicationError

from perdure.activities.support.error_mapping import EFFECT_UNCERTAIN, refuse_again, translated
from perdure.activities.support.heartbeat import (
    Finished,
    Interrupted,
    Stopwatch,
    cancelled_by_shutdown,
    to_the_end,
    within,
)
from perdure.activities.support.run_storage import Frames
from perdure.domain.evaluation.check_termination import leading_number
from perdure.domain.foundation.errors import (
    InvalidInput,
    NotAllowed,
    NotFound,
    PerdureError,
    StoreAway,
)
from perdure.domain.foundation.json_extraction import to_encodable
from perdure.domain.foundation.refs import BlobRef
from perdure.domain.llm.attachments import Attachment, Measure, not_measured, read_attachment
from perdure.domain.llm.transcript import ToolUseBlock
from perdure.domain.ports import BlobStore, ToolHost, TranscriptStore
from perdure.domain.run.activity_messages import KeepResultRequest, ToolCallReport, ToolCallRequest
from perdure.domain.tools.definitions import (
    CheckCallReport,
    ShownFile,
    ToolGrant,
    ToolInvocation,
    ToolOutput,
    arguments_hash,
    in_brief,
)
from perdure.domain.tools.workspaces import Workspaces
from perdure.domain.turns.tool_questions import SHOWN_CHARACTERS, call_shown

CONVERSATION_DIGITS = 16


@dataclass(frozen=True, kw_only=True)
class AskedCalls:
    """Reads tool calls from the transcript, as the workflow decided on them."""

    transcripts: TranscriptStore
    frames: Frames
    workspaces: Workspaces

    async def require_folder(self, step: ToolCallRequest) -> None:
        """Raise `FolderGone` if this host should have the working folder but does not."""
        if step.root:
            await self.workspaces.require(root=step.root)

    async def find(self, step: ToolCallRequest) -> tuple[ToolInvocation, ToolGrant]:
        """The tool call that the step names, and its grant.

        Raises:
            NotFound: the conversation has no such call.
            NotAllowed: its arguments differ from those that the workflow decided on.
        """
        frame = await self.frames.load(step.frame)
        use = await self._use(step)
        envelope = ToolInvocation(
            run=frame.run,
            call_id=use.id,
            idempotency_key=_key(frame.run, step),
            name=use.name,
            arguments=use.arguments,
            conversation=step.head,
            timeout_s=step.timeout_s,
            iteration=step.iteration,
            stage=step.stage,
        )
        grant = frame.grant
        # The folder was made anew on another host, whose home may be elsewhere.
        return envelope, grant.model_copy(update={"root": step.root}) if step.root else grant

    async def _use(self, step: ToolCallRequest) -> ToolUseBlock:
        # Its call is among the newest: a host that has nothing of a long conversation in memory
        # reads its last links, not all.
        address: str | None = step.head
        while address is not None:
            link = await self.transcripts.link(address)
            for message in reversed(link.messages):
                for use in message.tool_uses:
                    if use.id == step.call_id:
                        return _checked(use, step)
            address = link.parent
        raise NotFound(f"tool call {step.call_id} is not in transcript {step.head}")


def _key(run: str, step: ToolCallRequest) -> str:
    """The same on every attempt, so that a tool whose service knows such keys works once."""
    key = f"{run}/{step.iteration}/{step.call_id}"
    # Ids of calls are unique within a conversation, and each stage of an iteration has its own.
    hexadecimal = step.head.partition(":")[2]
    return f"{key}/{hexadecimal[:CONVERSATION_DIGITS]}" if step.stage else key


def _checked(use: ToolUseBlock, step: ToolCallRequest) -> ToolUseBlock:
    if arguments_hash(use.name, use.arguments) != step.args_hash:
        raise NotAllowed(
            f"tool call {use.id} ({use.name}) has other arguments than those decided on"
        )
    return use


class CheckCall:
    """Checks tool calls without running them."""

    def __init__(self, *, blobs: BlobStore, calls: AskedCalls, host: ToolHost) -> None:
        self._blobs = blobs
        self._calls = calls
        self._host = host

    @activity.defn
    @translated
    async def check_call(self, step: ToolCallRequest) -> CheckCallReport:
        """Check grant and arguments of a call, and render it for a person to approve."""
        envelope, grant = await self._calls.find(step)
        await self._calls.require_folder(step)
        rehearsal = await self._host.rehearse(envelope, grant)
        if rehearsal.refused is not None:
            ref = await self._blobs.put_text(rehearsal.refused.text)
            return CheckCallReport(refused=rehearsal.refused.outcome, ref=ref)
        whole = call_shown(envelope.arguments, shows=rehearsal.shows, tells=rehearsal.tells)
        left_out = max(0, len(whole) - SHOWN_CHARACTERS)
        return CheckCallReport(
            shown=whole[:SHOWN_CHARACTERS],
            left_out=left_out,
            ref=await self._blobs.put_text(whole) if left_out else None,
        )


@dataclass(frozen=True, kw_only=True)
class CallTool:
    """Runs tools. Arguments come from the transcript, never through the history."""

    blobs: BlobStore
    calls: AskedCalls
    host: ToolHost
    workspaces: Workspaces
    measure: Measure = not_measured

    @activity.defn
    @translated
    async def call_tool(self, step: ToolCallRequest) -> ToolCallReport:
        """Run the tool call; a failing tool is a result for the model, not an error."""
        # First: the server makes another attempt of a step that was paused or reset there, whatever
        # the policy of a call that may run once says.
        refuse_again()
        watch = Stopwatch()
        envelope, grant = await self.calls.find(step)
        await self.calls.require_folder(step)
        # A stop from a person ends the tool and still returns a report; only a dying worker does
        # not.
        ended = await within(self.host.call(envelope, grant), seconds=step.active_time_s)
        match ended:
            case Finished(value=output):
                given = output
            case Interrupted(by=reason):
                given = ToolOutput(outcome="interrupted", text=f"[ended early: {reason}]")
        report = await self._report(step.name, given, watch.seconds)
        if not step.takes_snapshot:
            return report
        tree = await to_the_end(self._tree_after(step.name, envelope.run, root=grant.root))
        # A monotonic clock is enough to order calls that ran side by side: they ran on one host.
        return report.model_copy(update={"tree": tree, "tree_at": time.monotonic_ns()})

    @activity.defn
    @translated
    async def keep_result(self, step: KeepResultRequest) -> ToolCallReport:
        """Store the result of a foreign activity as the result of the call."""
        given = self.host.output_of(step.outcome, step.value)
        return await self._report(step.name, given, step.seconds)

    async def _tree_after(self, name: str, run: str, *, root: str) -> str | None:
        """Store the working folder after a call; None if that is not possible.

        The tool has run, so no failure here may make the call look repeatable. If the tool itself
        removed the folder, the next step notices that before it begins.
        """
        try:
            return (await self.workspaces.snapshot(run=run, root=root)).tree.hash
        except Exception as error:
            if isinstance(error, StoreAway) and cancelled_by_shutdown():
                raise  # the worker stops: an idempotent call is then made again
            activity.logger.warning("The files were not stored after %s: %s", name, error)
            return None

    async def _report(self, name: str, given: ToolOutput, seconds: float) -> ToolCallReport:
        return ToolCallReport(
            outcome=given.outcome,
            ref=await to_the_end(self._kept(name, given.text)) if given.text else None,
            code=given.code,
            seconds=seconds,
            number=leading_number(given.text) if given.outcome == "ok" else None,
            told=in_brief(to_encodable(given.text)),
            held=given.held,
            handed_over=given.handed_over,
            attachments=tuple([await to_the_end(self._attached(one)) for one in given.files]),
        )

    async def _attached(self, file: ShownFile) -> Attachment:
        """Store a file that a tool shows, and say what it is.

        Raises:
            InvalidInput: no model can be shown it; built-in tools say so before.
        """
        ref = await self.blobs.put(file.data)
        found = await asyncio.to_thread(
            read_attachment, file.data, name=file.name, ref=ref, measure=self.measure
        )
        if isinstance(found, str):
            raise InvalidInput(f"{file.name}: {found}.")
        return found

    async def _kept(self, name: str, text: str) -> BlobRef:
        """Store the result of a tool that has run; it is the only trace of its effect.

        If the store is away, this waits for it with the result in hand. If storing fails for good,
        the call ends as an uncertain effect and not as an error, which would run the tool again.
        """
        try:
            return await self.blobs.put_text(to_encodable(text))
        except PerdureError as error:
            if isinstance(error, StoreAway) and cancelled_by_shutdown():
                raise  # the worker stops: an idempotent call is then made again
            raise ApplicationError(
                f"{name} ran, but its result could not be stored: {error}", type=EFFECT_UNCERTAIN
            ) from error
