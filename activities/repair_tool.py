"""The activity `repair_tool`: ask a model for the repair of a draft, and store what it is."""

from functools import partial

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.generated_tools.draft import ToolDraft
from perdure.domain.generated_tools.messages import RepairToolReport, RepairToolRequest
from perdure.domain.generated_tools.repair import REPAIR_SYSTEM, read_repair, repair_schema
from perdure.domain.ports import BlobStore

TEMPERATURE = 0.0


class RepairTool:
    """Repairs in a context of its own; what comes back passes the pipeline like any other draft."""

    def __init__(self, structured: StructuredCalls, *, blobs: BlobStore) -> None:
        self._structured = structured
        self._blobs = blobs

    @activity.defn
    @translated
    async def repair_tool(self, step: RepairToolRequest) -> RepairToolReport:
        """Make the call with structured output; the name stays, whatever the reply says."""
        draft = ToolDraft.model_validate_json(await self._blobs.get(step.draft))
        answered = await self._structured.ask(
            step.call,
            schema=repair_schema(),
            read=partial(read_repair, draft=draft),
            system=REPAIR_SYSTEM,
            temperature=TEMPERATURE,
        )
        stored = ""
        if answered.value is not None:
            stored = await self._blobs.put(answered.value.model_dump_json().encode())
        return RepairToolReport(call=answered.call, draft=stored, problems=answered.problems)
