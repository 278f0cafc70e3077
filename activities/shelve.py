"""The activity `shelve`: long inputs become blobs, so that children are given references."""

from pydantic import JsonValue
from temporalio import activity

from activities.translate import translated
from perdure.domain.agent.prompts import input_address, input_text
from perdure.domain.child_steps import ShelveReport, ShelveRequest
from perdure.domain.ports import BlobStore

# A wave of children stays far below what the server takes in one transaction.
PASSED_INLINE_BYTES = 1_024


class Shelve:
    """Stores inputs; equal ones have one address, so a repeat stores nothing."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    @activity.defn
    @translated
    async def shelve(self, step: ShelveRequest) -> ShelveReport:
        """Replace each long value by the form that an input by reference has."""
        return ShelveReport(
            values={name: await self._passed(value) for name, value in step.values.items()}
        )

    async def _passed(self, value: JsonValue) -> JsonValue:
        text = input_text(value)
        if input_address(value) is not None or len(text.encode()) <= PASSED_INLINE_BYTES:
            return value
        return {"ref": (await self._blobs.put_text(text)).hash}
