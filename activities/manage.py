"""The activity `manage`: ask the manager what is to be done next, and read its decision."""

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.activities.support.structured_calls import StructuredCalls
from perdure.domain.delegation.decisions import Complete
from perdure.domain.delegation.key_findings import is_usable
from perdure.domain.delegation.messages import ManageReport, ManageRequest
from perdure.domain.delegation.parse_decision import read_decision
from perdure.domain.delegation.prompts import MANAGER_SYSTEM
from perdure.domain.delegation.schemas import decision_schema
from perdure.domain.foundation.json_extraction import as_text
from perdure.domain.ports import BlobStore


class Manage:
    """Asks in a context of its own: the view holds all that a decision needs."""

    def __init__(self, *, structured: StructuredCalls, blobs: BlobStore) -> None:
        self._structured = structured
        self._blobs = blobs

    @activity.defn
    @translated
    async def manage(self, step: ManageRequest) -> ManageReport:
        """Make the call with structured output, and read the decision in whatever form it came."""
        answered = await self._structured.ask(
            step.call, schema=decision_schema(), read=read_decision, system=MANAGER_SYSTEM
        )
        decision = answered.value
        if decision is None:
            return ManageReport(call=answered.call, problems=answered.problems)
        final = None
        if isinstance(decision, Complete) and is_usable(decision.final_result):
            final = await self._blobs.put_text(as_text(decision.final_result))
        return ManageReport(call=answered.call, decision=decision, final=final)
