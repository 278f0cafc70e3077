"""Inputs that name a blob: what is no text ends the run, and what a model names is only data."""

import pytest
from agent_runs import script as said
from agent_runs import task
from delegating import completes, delegates, delegation, script
from installation import Installation

BINARY = b"\x89PNG\xff\xfe binary"


@pytest.mark.parametrize("given", [task(), delegation()], ids=["agent", "delegation"])
async def test_an_input_that_is_no_text_fails_the_run(
    site: Installation, given: dict[str, object]
) -> None:
    ref = await site.parts.stores.blobs.put(BINARY)
    result = await site.run({**given, "context": {"chart": {"ref": ref}}}, said({"text": "hi"}))
    assert (result.outcome, result.reason) == ("failed", "invalid_input")
    assert f"context.chart: The blob {ref} is not UTF-8 text." in (result.error or "")


async def test_a_conversation_that_is_none_fails_the_run(site: Installation) -> None:
    ref = await site.parts.stores.blobs.put(b"no conversation")
    result = await site.run(task(agent={"transcript": ref}), said({"text": "hi"}))
    assert (result.outcome, result.reason) == ("failed", "invalid_input")
    assert f"agent.transcript: The blob {ref} is not a link" in (result.error or "")


@pytest.mark.long
@pytest.mark.parametrize("content", [BINARY, b"the secret of another run"], ids=["bytes", "text"])
async def test_a_model_reads_no_blob_by_its_address(site: Installation, content: bytes) -> None:
    ref = await site.parts.stores.blobs.put(content)
    ends = completes("Seen as data.", by="sub")
    result = await site.run(
        delegation(),
        script(
            # It fits no prompt that holds the content instead of the address.
            {**ends, "when": {"role": "manager", "worker": "sub", "contains": ref}},
            delegates("sub", sub_manager=True, inputs={"chart": {"ref": ref}}),
            completes(),
        ),
    )
    assert (result.outcome, result.spend.sub_managers) == ("accepted", 1), result.error
    below = await site.gateway.result(f"{result.id}.w1-sub")
    assert below.output == "Seen as data."
