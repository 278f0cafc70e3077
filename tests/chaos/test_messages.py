"""R09, R11, R43, R48: messages that come too late, too often or too many at once."""

import asyncio

import pytest
from ground import Ground
from invariants import executions
from provider import Play
from temporalio.service import RPCError, RPCStatusCode
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed, ServiceUnavailable
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import AddInput, Answer, AnyMessage, Pause, Resume, Stop
from perdure.domain.tools.definitions import arguments_hash

APPROVAL = Play(text="", calls=[("effect.approved", {"word": "a"})])
# What a person would answer who saw the gate while it was open.
HASH = arguments_hash("effect.approved", {"word": "a"})
LATE = Answer(gate="g1", choice="approve", args_hash=HASH, by="me")
PAIRS = 5_000
IN_FLIGHT = 10


async def asked(ground: Ground, run: str) -> Gate:
    """The gate that a run opens."""

    async def opened() -> bool:
        return bool((await ground.site.status(run)).gates)

    await eventually(opened)
    return (await ground.site.status(run)).gates[0]


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("pause", Pause()),
        ("resume", Resume()),
        ("stop", Stop(mode="now")),
        ("add_input", AddInput(text="too late")),
        ("answer", Answer(gate="g1", choice="approve")),
    ],
    ids=["pause", "resume", "stop", "add_input", "answer"],
)
async def test_r11_a_closed_run_takes_nothing_more(
    served: Ground, verb: str, message: AnyMessage
) -> None:
    run = await served.start()
    before = await served.check(run)
    asked = served.provider.lines()
    with pytest.raises(NotAllowed, match="has ended"):
        await served.verb(run, message)
    with pytest.raises(RPCError) as refused:
        await served.site.handle(run).signal(verb, message)
    assert refused.value.status == RPCStatusCode.NOT_FOUND
    assert await served.check(run) == before, "the ending stays as it was"
    assert len(await executions(served.site, run)) == 1
    assert served.provider.lines() == asked, "and nobody was asked again"


@pytest.mark.slow
async def test_r43_messages_beyond_what_a_server_holds_are_told_to_wait(chaos: Ground) -> None:
    """Without a worker ten updates wait at the server; all are answered, and none acts twice.

    The eleventh hears that the server is overloaded, or takes the place of one that it gave up.
    """
    chaos.provider.plays = [Play(text="first", gate="later"), Play(text="more")]
    async with chaos.site.worker():
        run = await chaos.start()
        await chaos.billed(1)
    messages = [AddInput(text=f"say-{n}.", request_id=f"r{n}") for n in range(IN_FLIGHT + 1)]
    answers = await asyncio.wait_for(
        asyncio.gather(*(chaos.verb(run, one) for one in messages), return_exceptions=True), 60
    )
    assert all(isinstance(answer, ServiceUnavailable) for answer in answers), answers
    assert not [answer for answer in answers if "does not answer" in str(answer)], answers
    async with chaos.site.worker():
        for message in messages:
            await chaos.verb(run, message)
        chaos.provider.open("later")
        result = await chaos.check(run, kills=1)
    told = str(chaos.provider.bodies[-1]["messages"]) + " ".join(result.unread_input)
    assert [told.count(message.text) for message in messages] == [1] * len(messages)


@pytest.mark.long
@pytest.mark.parametrize("policy", ["default:deny", "safe"])
async def test_r48_an_answer_after_the_default_was_taken(served: Ground, policy: str) -> None:
    served.provider.plays = [APPROVAL, Play(text="done", gate="later")]
    run = await served.start(gates={"timeout_s": 2.0, "on_expiry": policy})
    await served.billed(2)
    with pytest.raises(NotAllowed, match=r"already answered with 'deny' by deadline"):
        await served.verb(run, LATE)
    await served.site.handle(run).signal("answer", LATE)

    async def noted() -> bool:
        return any("deadline" in why for why in (await served.site.status(run)).refused)

    await eventually(noted)
    served.provider.open("later")
    result = await served.check(run)
    assert [call.outcome for call in result.iterations[0].calls] == ["denied"]
    assert not served.effects.exists(), "what nobody allowed was not done"


@pytest.mark.long
async def test_r48_an_answer_after_the_run_ended_unanswered(served: Ground) -> None:
    served.provider.plays = [APPROVAL, Play(text="done")]
    run = await served.start(gates={"timeout_s": 2.0, "on_expiry": "end"})
    result = await served.check(run)
    assert (result.outcome, result.reason) == ("unanswered", "gate_expired")
    with pytest.raises(NotAllowed, match=r"has ended \(unanswered\)"):
        await served.verb(run, LATE)
    assert not served.effects.exists()


@pytest.mark.slow
async def test_r09_thousands_of_pauses_overflow_nothing(served: Ground) -> None:
    """A run that waits for a person rolls over by the number of its messages."""
    served.provider.plays = [APPROVAL, Play(text="done")]
    run = await served.start()
    gate = await asked(served, run)
    assert gate.args_hash == HASH
    handle = served.site.handle(run)
    for number in range(PAIRS):
        await handle.signal("pause", Pause(request_id=f"p{number}"))
        await handle.signal("resume", Resume(request_id=f"r{number}"))

    async def at_rest() -> bool:
        return (await served.site.status(run)).lifecycle == "waiting"

    await eventually(at_rest)
    status = await served.site.status(run)
    assert status.refused == (), "each was allowed, so each came once and in its order"
    assert [one.id for one in status.gates] == [gate.id]
    assert len(served.provider.lines()) == 1
    answer = Answer(gate=gate.id, choice="approve", args_hash=gate.args_hash, by="me")
    await served.verb(run, answer)
    result = await served.check(run)
    assert result.output == "done"
    assert len(await executions(served.site, run)) >= 2 * PAIRS // 1_000
