"""Inputs that name a blob: what is no text ends the run, and what a model names is only data.

What is added to a run at work ends none: it is told that the text is lost.
"""

import pytest
from agent_runs import script as said
from agent_runs import task
from delegating import completes, delegates, delegation, script, works
from holding import HELD, Holding
from installation import Installation
from refining import draft
from refining import spec as refine
from stages import at_stage
from teams import APPROVED, PAIR, says, stage, team
from teams import task as roles
from waiting import eventually

from perdure.domain.roles.definition import LoopSnapshot
from perdure.domain.run.messages import Pause, Resume
from perdure.domain.turns.guidance import LOST_TEXT

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


TOLD = {"contains": LOST_TEXT}
LOOPS = {
    "agent": (task(), [{"text": "a", "delay_s": HELD}, {"text": "b", "when": TOLD}]),
    "refine": (
        refine(quality_threshold=0.9),
        [{"text": draft(0.3), "delay_s": HELD}, {"text": draft(1.0), "when": TOLD}],
    ),
    "roles": (
        roles(team(*PAIR)),
        [
            says("coder", "draft", delay_s=HELD),
            says("coder", "the draft", when=TOLD),
            says("reviewer", APPROVED),
        ],
    ),
}


@pytest.mark.parametrize("loop", LOOPS)
async def test_a_text_that_cannot_be_read_is_told_as_lost(
    site: Installation, holding: Holding, loop: str
) -> None:
    given, replies = LOOPS[loop]
    run = await site.start(given, {"replies": replies})
    await holding.begun()
    await _add_lost(site, run)
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.unread_input) == ("accepted", ()), result.error


async def test_a_loop_below_a_stage_is_told_that_a_text_is_lost(
    site: Installation, holding: Holding
) -> None:
    below = LoopSnapshot.model_validate(team(*PAIR))
    build = {"name": "build", "prompt": "Build the parser.", "loop": "team"}
    above = team(stage("plan"), build, stage("critic"), nested={"build": below})
    replies = [
        says("plan", "the plan", delay_s=HELD),
        says("coder", "the parser", when=TOLD),
        says("reviewer", APPROVED),
        says("critic", APPROVED),
    ]
    run = await site.start(roles(above), {"replies": replies})
    await holding.begun()
    # Paused behind the stage at work: what is added now is told to the loop of the next one.
    await site.gateway.verb(run, Pause(by="ann"))
    holding.release()
    await eventually(lambda: at_stage(site, run, "build"))
    await _add_lost(site, run)
    await site.gateway.verb(run, Resume(by="ann"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "the parser"), result.error


async def test_a_manager_is_told_of_a_text_that_cannot_be_read_and_its_sender_too(
    site: Installation, holding: Holding
) -> None:
    told = {"role": "manager", "contains": "A text that people added could not be read"}
    run = await site.start(
        delegation(),
        script(
            delegates("w1"),
            works("w1"),
            {**completes("glass"), "delay_s": HELD},
            {**completes("steel"), "when": told},
        ),
    )
    await holding.begun()
    lost = await _add_lost(site, run)
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.output, result.unread_input) == ("accepted", "steel", ())
    status = await site.status(run)
    assert status.refused_count == len(lost)
    assert [note.partition(":")[0] for note in status.refused] == ["add_input"] * len(lost)


async def _add_lost(site: Installation, run: str) -> list[str]:
    """Add texts by references to nothing, to what is no address, and to what is no text."""
    binary = await site.parts.stores.blobs.put(BINARY)
    lost = [f"sha256:{0:064}", "no address", binary]
    for address in lost:
        message = {"by": "ann", "ref": {"hash": address}}
        await site.handle(run).signal("add_input", message)
    return lost
