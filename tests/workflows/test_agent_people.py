"""People and an agent run: input on the way, guidance, questions, approvals, stops."""

import threading

import probe_tools
import pytest
from agent_runs import (
    answer,
    books_agree,
    call,
    calls,
    conversation,
    echo,
    gate_of,
    results,
    script,
    shown,
    task,
)
from holding import HELD, Holding
from installation import Installation
from waiting import eventually

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.run.messages import AddInput, Amend, Answer, Escalate, Stop

DONE = {"text": "Done."}
WAITING = calls(call("probe.wait", text="waited"))
SLOW = {"text": "First answer.", "delay_s": HELD}


async def in_tool(site: Installation, run: str) -> None:
    """Wait until a run's tool is running."""
    await eventually(lambda: bool(probe_tools.CALLS.get(run)))


def let_go(run: str) -> None:
    probe_tools.RELEASED.setdefault(run, threading.Event()).set()


@pytest.mark.long
async def test_input_comes_after_the_result_and_before_the_next_call(probe: Installation) -> None:
    run = await probe.start(task(), script(WAITING, DONE))
    await in_tool(probe, run)
    await probe.gateway.verb(run, AddInput(text="Also mention tea.", by="t"))
    let_go(run)
    result = await probe.gateway.result(run)
    messages = await conversation(probe, result.transcript)
    kinds = [[block.type for block in message.blocks] for message in messages]
    assert kinds == [["text"], ["tool_use"], ["tool_result"], ["text"], ["text"]]
    assert messages[3].text == "Also mention tea." and messages[3].pinned
    assert result.unread_input == ()


async def test_input_at_the_closure_keeps_the_reply_and_goes_on(
    probe: Installation, holding: Holding
) -> None:
    run = await probe.start(task(), script(SLOW, {"text": "Second answer."}))
    await holding.begun()
    await probe.gateway.verb(run, AddInput(text="And now in short.", by="t"))
    holding.release()
    result = await probe.gateway.result(run)
    assert (result.output, result.outcome) == ("Second answer.", "accepted")
    assert (await shown(probe, result))[1:] == [
        "assistant: First answer.",
        "user: And now in short.",
        "assistant: Second answer.",
    ]
    assert result.iterations[0].break_reason == "input"


@pytest.mark.long
async def test_input_on_the_last_iteration_comes_back_unread(
    probe: Installation, holding: Holding
) -> None:
    run = await probe.start(task(agent={"max_iterations": 1}), script(SLOW))
    await holding.begun()
    await probe.gateway.verb(run, AddInput(text="Too late.", by="t"))
    holding.release()
    result = await probe.gateway.result(run)
    assert (result.output, result.unread_input) == ("First answer.", ("Too late.",))


async def test_input_that_no_call_could_take_comes_back_unread(
    probe: Installation, holding: Holding
) -> None:
    """The budget ends between the answer and the call that would have read the input."""
    run = await probe.start(task(budget={"model_calls": 1}), script(SLOW))
    await holding.begun()
    await probe.gateway.verb(run, AddInput(text="One more thing.", by="t"))
    holding.release()
    result = await probe.gateway.result(run)
    assert result.output == "First answer."
    assert result.unread_input == ("One more thing.",)


@pytest.mark.long
async def test_long_input_travels_by_reference(probe: Installation) -> None:
    run = await probe.start(task(), script(WAITING, DONE))
    await in_tool(probe, run)
    await probe.gateway.verb(run, AddInput(text="long " * 4_000, by="t"))
    let_go(run)
    result = await probe.gateway.result(run)
    assert any(text == f"user: {'long ' * 4_000}" for text in await shown(probe, result))


async def test_guidance_is_said_once_in_the_next_prompt(probe: Installation) -> None:
    run = await probe.start(task(), script(WAITING, echo("b"), DONE))
    await in_tool(probe, run)
    await probe.gateway.verb(run, Amend(guidance="Be brief.", by="t"))
    let_go(run)
    result = await probe.gateway.result(run)
    texts = await shown(probe, result)
    assert texts.count("user: Guidance: Be brief.") == 1
    assert texts.index("user: Guidance: Be brief.") == 1


@pytest.mark.long
async def test_guidance_taken_back_before_it_was_read_is_never_told(probe: Installation) -> None:
    run = await probe.start(task(), script(WAITING, echo("b"), DONE))
    await in_tool(probe, run)
    await probe.gateway.verb(run, Amend(guidance="Be brief.", by="t"))
    await probe.gateway.verb(run, Amend(remove=(1,), by="t"))
    let_go(run)
    texts = await shown(probe, await probe.gateway.result(run))
    assert not [text for text in texts if "Be brief." in text]


@pytest.mark.long
async def test_guidance_taken_back_after_it_was_read_is_told_so(
    probe: Installation, holding: Holding
) -> None:
    reading = {**echo("b"), "delay_s": HELD}
    run = await probe.start(task(), script(WAITING, reading, DONE))
    await in_tool(probe, run)
    await probe.gateway.verb(run, Amend(guidance="Be brief.", by="t"))
    let_go(run)
    await holding.begun()
    await probe.gateway.verb(run, Amend(remove=(1,), by="t"))
    holding.release()
    texts = await shown(probe, await probe.gateway.result(run))
    assert texts.count("user: Guidance: This was taken back and holds no more: Be brief.") == 1


@pytest.mark.long
async def test_the_answer_to_an_escalation_guides_the_very_next_call(probe: Installation) -> None:
    run = await probe.start(task(), script(WAITING, echo("b"), DONE))
    await in_tool(probe, run)
    await probe.gateway.verb(run, Escalate(note="look at this", by="t"))
    let_go(run)
    await eventually(lambda: gate_of(probe, run))
    gate = await gate_of(probe, run)
    assert gate is not None and (gate.kind, gate.prompt) == ("escalation", "look at this")
    await answer(probe, run, gate, "continue", "Use the list.")
    result = await probe.gateway.result(run)
    assert result.iterations[1].transcript is not None
    second = await conversation(probe, result.iterations[1].transcript)
    assert "Guidance: Use the list." in [message.text for message in second]


@pytest.mark.long
@pytest.mark.parametrize(
    ("choice", "ending"),
    [
        ("accept", ("accepted", "approved", "Done.")),
        ("stop", ("stopped", "stopped", "Done.")),
        ("continue", ("accepted", "text_answer", "Done with the list.")),
    ],
)
async def test_an_escalation_in_the_last_call_is_still_asked(
    probe: Installation, holding: Holding, choice: str, ending: tuple[str, str, str]
) -> None:
    replies = [{**DONE, "delay_s": HELD}, {"text": "Done with the list."}]
    run = await probe.start(task(), script(*replies))
    await holding.begun()
    await probe.gateway.verb(run, Escalate(note="good enough?", by="t"))
    with pytest.raises(NotAllowed, match="asks at its next checkpoint already"):
        await probe.gateway.verb(run, Escalate(note="and this?", by="u"))
    holding.release()
    await eventually(lambda: gate_of(probe, run))
    gate = await gate_of(probe, run)
    assert gate is not None and (gate.kind, gate.prompt) == ("escalation", "good enough?")
    await answer(probe, run, gate, choice)
    result = await probe.gateway.result(run)
    assert (result.outcome, result.reason, result.output) == ending


async def _in_phase(site: Installation, run: str, phase: str) -> bool:
    return (await site.status(run)).phase == phase


@pytest.mark.long
async def test_a_question_of_the_model_waits_for_a_person(probe: Installation) -> None:
    asked = calls(
        call("human.ask", question="Tea or coffee?", choices=["tea", "coffee"]),
        call("probe.echo", text="meanwhile"),
    )
    run = await probe.start(task(), script(asked, DONE))
    await eventually(lambda: gate_of(probe, run))
    gate = await gate_of(probe, run)
    assert gate is not None
    assert (gate.kind, gate.prompt, gate.choices) == (
        "question",
        "Tea or coffee?",
        ("tea", "coffee"),
    )
    # The other call of the same reply is made meanwhile.
    await eventually(lambda: _in_phase(probe, run, "waiting"))
    assert probe_tools.CALLS[run] == ["echo meanwhile"]
    assert (await probe.status(run)).blocked_on == "question"
    await answer(probe, run, gate, "tea")
    result = await probe.gateway.result(run)
    assert [(block.name, block.text) for block in await results(probe, result)] == [
        ("human.ask", "The person answered: tea"),
        ("probe.echo", "meanwhile"),
    ]


PAY = calls(call("probe.approved", amount=5))
PAYING = {"access": "full"}


async def opened(probe: Installation, *replies):
    run = await probe.start(task(tools=PAYING), script(*replies))
    await eventually(lambda: gate_of(probe, run))
    gate = await gate_of(probe, run)
    assert gate is not None and gate.kind == "tool_approval"
    return run, gate


@pytest.mark.long
async def test_an_approved_call_runs(probe: Installation) -> None:
    run, gate = await opened(probe, PAY, DONE)
    assert "amount: 5" in gate.prompt and gate.args_hash is not None
    assert gate.args_hash in gate.prompt
    assert run not in probe_tools.CALLS
    await answer(probe, run, gate, "approve")
    result = await probe.gateway.result(run)
    assert probe_tools.CALLS[run] == ["approved 5"]
    assert (await results(probe, result))[0].text == "paid 5"


@pytest.mark.parametrize("text", ["", "too much"])
async def test_a_denied_call_does_not_run_and_the_model_is_told(probe: Installation, text) -> None:
    run, gate = await opened(probe, PAY, DONE)
    await answer(probe, run, gate, "deny", text)
    result = await probe.gateway.result(run)
    (block,) = await results(probe, result)
    assert block.outcome == "denied"
    assert block.text == f"a person denied this call{': ' + text if text else ''}"
    assert run not in probe_tools.CALLS
    assert result.iterations[0].calls[0].outcome == "denied"


@pytest.mark.long
@pytest.mark.parametrize(
    ("hashed", "problem"),
    [("0" * 64, "asks about other arguments"), (None, "an approval names what it approves")],
    ids=["of another call", "missing"],
)
async def test_an_approval_names_what_it_approves(probe: Installation, hashed, problem) -> None:
    run, gate = await opened(probe, PAY, DONE)
    with pytest.raises(NotAllowed, match=problem):
        await probe.gateway.verb(
            run, Answer(gate=gate.id, choice="approve", args_hash=hashed, by="t")
        )
    await answer(probe, run, gate, "deny")
    await probe.gateway.result(run)
    assert run not in probe_tools.CALLS


@pytest.mark.long
async def test_approvals_of_one_batch_are_asked_together(probe: Installation) -> None:
    asked = calls(call("probe.approved", amount=1), call("probe.approved", amount=2))
    run, first = await opened(probe, asked, DONE)
    second = await gate_of(probe, run, 1)
    assert second is not None and second.args_hash != first.args_hash
    await answer(probe, run, second, "approve")
    await answer(probe, run, first, "deny")
    result = await probe.gateway.result(run)
    assert [block.outcome for block in await results(probe, result)] == ["denied", "ok"]
    assert probe_tools.CALLS[run] == ["approved 2"]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["graceful", "now"])
async def test_a_stop_while_a_person_is_asked(probe: Installation, mode) -> None:
    run, _ = await opened(probe, PAY, {"text": "Stopped early."})
    await probe.gateway.verb(run, Stop(mode=mode, by="t"))
    result = await probe.gateway.result(run)
    assert (result.outcome, result.reason) == ("stopped", "stopped")
    assert run not in probe_tools.CALLS
    assert result.iterations[0].calls[0].outcome == "interrupted"
    if mode == "now":
        assert result.explanation == "The run was stopped; there is nothing to show yet."
    if mode == "graceful":
        assert result.output == "Stopped early."
        assert (await results(probe, result))[0].outcome == "interrupted"
    await books_agree(probe, result)


async def test_an_expired_gate_ends_the_run_with_every_call_answered(probe: Installation) -> None:
    wanted = task(tools=PAYING, gates={"timeout_s": 0.2, "on_expiry": "end"})
    result = await probe.run(wanted, script(PAY, {"text": "Nobody came."}))
    assert (result.outcome, result.reason) == ("unanswered", "gate_expired")
    assert result.output == "Nobody came."
    assert [block.outcome for block in await results(probe, result)] == ["interrupted"]


@pytest.mark.long
async def test_stopped_at_once_the_deferred_text_is_kept(probe: Installation) -> None:
    run = await probe.start(task(), script({**WAITING, "text": "So far so good."}, DONE))
    await in_tool(probe, run)
    await probe.gateway.verb(run, Stop(mode="now", by="t"))
    result = await probe.gateway.result(run)
    assert (result.outcome, result.output) == ("stopped", "So far so good.")
