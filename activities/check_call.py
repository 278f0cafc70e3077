"""The activity `check_call`: what a call would meet and do, before a person is asked about it."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.requested_calls import AskedCalls
from perdure.domain.ports import BlobStore, ToolHost
from perdure.domain.run.activity_messages import ToolCallRequest
from perdure.domain.tools.definitions import CheckCallReport
from perdure.domain.turns.tool_questions import SHOWN_CHARACTERS, call_shown


class CheckCall:
    """Looks at calls; runs none."""

    def __init__(self, *, blobs: BlobStore, calls: AskedCalls, host: ToolHost) -> None:
        self._blobs = blobs
        self._calls = calls
        self._host = host

    @activity.defn
    @translated
    async def check_call(self, step: ToolCallRequest) -> CheckCallReport:
        """Check the grant and the arguments of a call, and show it as a person reads it."""
        envelope, grant = await self._calls.find(step)
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
