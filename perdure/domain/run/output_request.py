"""What a workflow that awaited a loop asks for: its whole output."""

from perdure.domain.foundation.base import ActivityMessage

MOST_BYTES = 1_500_000
"""Of an output as JSON; Temporal's servers take payloads of 2 MB, and a codec may add to them."""


class ReadOutputRequest(ActivityMessage):
    """Read the output of a run whole; `address` is the `output_ref` of its result."""

    run: str
    address: str
