"""The activity `repair_tool`: ask a model for the repair of a draft, and store what it is."""

from temporalio import activity

from activities.call_model import CallModel
from activities.translate import translated
from perdure.domain.delegation.tools.draft import ToolDraft
from perdure.domain.delegation.tools.repair import REPAIR_SYSTEM, read_repair, repair_schema
from perdure.domain.delegation.tools.steps import RepairToolReport, RepairToolRequest
from perdure.domain.evaluation_reply import BadReply
from perdure.domain.ports import BlobStore

TEMPERATURE = 0.0


class RepairTool:
    """Repairs in a context of its own; what comes back passes the pipeline like any other draft."""

    def __init__(self, *, calls: CallModel, blobs: BlobStore) -> None:
        self._calls = calls
        self._blobs = blobs

    @activity.defn
    @translated
    async def repair_tool(self, step: RepairToolRequest) -> RepairToolReport:
        """Make the call with structured output; the name stays, whatever the reply says."""
        draft = ToolDraft.model_validate_json(await self._blobs.get(step.draft))
        call = await self._calls.turn(
            step.call, json_schema=repair_schema(), system=REPAIR_SYSTEM, temperature=TEMPERATURE
        )
        if call.status != "replied":
            return RepairToolReport(call=call)
        text = "" if call.text is None else await self._blobs.get_text(call.text.hash)
        read = read_repair(text, draft)
        if isinstance(read, BadReply):
            return RepairToolReport(call=call, problems=read.problems)
        stored = await self._blobs.put(read.model_dump_json().encode())
        return RepairToolReport(call=call, draft=stored)
