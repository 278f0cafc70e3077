"""What a run names by reference: what it made, and what its tool calls returned."""

from contextlib import suppress

from perdure.domain.foundation.errors import NotAllowed, NotFound, StoreError
from perdure.domain.llm.transcript import ToolResultBlock
from perdure.interfaces.services import Services


async def require_reference(services: Services, run: str, ref: str) -> None:
    """Raises `NotFound` unless the run names this reference.

    Blobs are stored by their content alone, so that who reaches a run may read no other run's.
    """
    if ref not in await _made_by(services, run) and not await _was_given(services, run, ref):
        raise NotFound(
            f"The run {run} names no reference {ref[:80]!r}.",
            cure="Take one from the result or from an iteration of the run.",
        )


async def _made_by(services: Services, run: str) -> set[str | None]:
    kept = await services.artifacts.artifacts_of_run(run)
    found: set[str | None] = {item.ref for item in kept}
    for record in await services.gateway.records(run):
        found |= {record.output_ref, record.tree_ref, record.tools_ref}
        found |= {stage.output_ref for stage in record.stages}
    try:
        ended = await services.gateway.result(run, wait=False)
    except NotAllowed:
        return found
    return found | {ended.output_ref, *(item.ref for item in ended.artifacts)}


async def _was_given(services: Services, run: str, ref: str) -> bool:
    """Whether a tool call of the run returned this.

    It is then no artifact: the store has all of it, and the model may have seen only the beginning.
    """
    heads: list[str | None] = []
    for record in await services.gateway.records(run):
        heads += [record.transcript, *(stage.transcript for stage in record.stages)]
    with suppress(NotAllowed):
        heads.append((await services.gateway.result(run, wait=False)).transcript)
    # The newest first: the transcript of a later iteration usually holds the earlier messages too.
    for head in reversed(dict.fromkeys(heads)):
        if head is not None and ref in await _results_in(services, head):
            return True
    return False


async def _results_in(services: Services, head: str) -> set[str]:
    try:
        messages = await services.transcripts.load(head)
    except (NotFound, StoreError):
        return set()
    blocks = (block for message in messages for block in message.blocks)
    return {block.ref.hash for block in blocks if isinstance(block, ToolResultBlock) and block.ref}
