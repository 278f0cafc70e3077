"""The activity `read_run_output`: the whole output of a run, for a workflow that awaited it."""

import json

from temporalio import activity

from perdure.activities.support.error_mapping import translated
from perdure.domain.foundation.errors import InvalidInput, NotFound
from perdure.domain.ports import BlobStore
from perdure.domain.run.output_request import MOST_BYTES, ReadOutputRequest


class ReadRunOutput:
    """Reads outputs that are too long to stand in the results of their runs.

    Args:
        blobs: where the outputs are.
        most: bytes that an output may take as JSON.
    """

    def __init__(self, blobs: BlobStore, *, most: int = MOST_BYTES) -> None:
        self._blobs = blobs
        self._most = most

    @activity.defn
    @translated
    async def read_run_output(self, step: ReadOutputRequest) -> str:
        """Read an output by the address that the result names.

        Raises:
            NotFound: the store has not got it (any more).
            InvalidInput: it is too long for Temporal.
        """
        try:
            text = await self._blobs.get_text(step.address)
        except NotFound as error:
            raise NotFound(
                f"The output of {step.run} is not in the store of this worker.",
                cure="Read it before retention or an erasure removes it, on a queue of the "
                "installation that ran the loop.",
            ) from error
        # As the SDK's own converter writes it, which escapes whatever is not ASCII.
        size = len(json.dumps(text))
        if size > self._most:
            raise InvalidInput(
                f"The output of {step.run} takes {size:,} bytes as JSON, and a workflow reads at "
                f"most {self._most:,}: Temporal carries no more.",
                cure="Read it in an activity of your own, from perdure.Client: "
                f"(await (await client.attach({step.run!r})).result()).output.",
            )
        return text
