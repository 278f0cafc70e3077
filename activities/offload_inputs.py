"""The activity `shelve`: long inputs become blobs, so that children are given references."""

from pydantic import JsonValue
from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.domain.ports import BlobStore
from perdure.domain.run.activity_messages import ShelveReport, ShelveRequest
from perdure.domain.turns.prompts import input_address, input_text

# A wave of children stays far below what the server takes in one transaction.
PASSED_INLINE_BYTES = 1_024
SHOWN_CHARACTERS = 2_000


class Shelve:
    """Stores inputs; equal ones have one address, so a repeat stores nothing."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    @activity.defn
    @translated
    async def shelve(self, step: ShelveRequest) -> ShelveReport:
        """Replace each long value by the form that an input by reference has."""
        values: dict[str, JsonValue] = {}
        shown: dict[str, str] = {}
        for name, value in step.values.items():
            address = input_address(value)
            text = input_text(value) if address is None else await self._blobs.get_text(address)
            shown[name] = beginning(text)
            if address is None and len(text.encode()) > PASSED_INLINE_BYTES:
                address = (await self._blobs.put_text(text)).hash
            values[name] = value if address is None else {"ref": address}
        return ShelveReport(values=values, shown=shown)


def beginning(text: str) -> str:
    """What a manager is shown of an input; it hands the whole on by name."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    left_out = len(text) - SHOWN_CHARACTERS
    return f"{text[:SHOWN_CHARACTERS]}\n[{left_out} more characters; `inherit` hands it on whole]"
