"""People and a manager: what they say while it works reaches all who work for it, and judge it."""

import pytest
from agent_runs import gate_of
from delegating import Reply, completes, delegates, delegation, script, works
from holding import HELD, Holding
from installation import Installation
from stages import open_gate
from waiting import eventually

from perdure.domain.delegation.apply_decision import UNHEARD
from perdure.domain.evaluation.outcomes import explain
from perdure.domain.run.gates import Gate
from perdure.domain.run.messages import AddInput, Amend, Answer, Escalate
from perdure.domain.turns.guidance import SAID_SINCE

SAID = "No glass, please."
LONG = f"{SAID}{' ' * 9_000}The end."


def told(role: str, *, worker: str | None = None) -> dict[str, str]:
    """Only a prompt that tells what was said gets the reply."""
    named = {"worker": worker} if worker else {}
    return {"role": role, "contains": SAID, **named}


@pytest.mark.long
async def test_what_is_said_holds_for_manager_workers_and_reviewers(
    site: Installation, holding: Holding
) -> None:
    review = {"when": {"role": "critic", "contains": f"{SAID_SINCE}\n- {SAID}"}}
    given = delegation(delegation={"critique": {"enabled": True}, "success_criteria": ["done"]})
    run = await site.start(
        given,
        script(
            delegates("w1"),
            works("w1", delay_s=HELD),
            {**delegates("w2", acceptance="of steel"), "when": told("manager")},
            {**works("w2"), "when": told("worker", worker="w2")},
            {**review, "json": {"score": 0.9, "defects": []}},
            {**completes(), "when": told("manager")},
            {**review, "json": {"criteria": [{"number": 1, "met": True, "missing": ""}]}},
        ),
    )
    await holding.begun()
    await site.gateway.verb(run, Amend(guidance=SAID, by="ann"))
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.spend.model_calls) == ("accepted", 7)


@pytest.mark.parametrize("text", [SAID, LONG], ids=["short", "by reference"])
async def test_a_manager_reads_what_was_added_before_it_may_complete(
    site: Installation, holding: Holding, text: str
) -> None:
    manager = {"role": "manager"}
    run = await site.start(
        delegation(),
        script(
            delegates("w1"),
            works("w1"),
            {**completes("glass"), "delay_s": HELD},
            {**delegates("w2", inherit=["added 1"]), "when": {**told("manager")}},
            {**works("w2"), "when": told("worker", worker="w2")},
            {**completes("steel"), "when": {**manager, "contains": SAID}},
        ),
    )
    await holding.begun()
    await site.gateway.verb(run, AddInput(text=text, by="ann"))
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.output, result.unread_input) == ("accepted", "steel", ())
    events = [event async for event in site.gateway.events(run)]
    refused = [event.data["why"] for event in events if event.data.get("decision") == "refused"]
    assert refused == [UNHEARD]


async def escalated_at_the_end(
    site: Installation, holding: Holding, *more: Reply, permitted: int = 10
) -> tuple[str, Gate]:
    """A run whose completion was under review when a person escalated, and its question."""
    settings = {"success_criteria": ["done"], "max_iterations": permitted}
    met = {"criteria": [{"number": 1, "met": True, "missing": ""}]}
    review = {"when": {"role": "critic"}, "json": met}
    replies = (delegates("w1"), works("w1"), completes("glass"), {**review, "delay_s": HELD})
    run = await site.start(delegation(delegation=settings), script(*replies, *more, review))
    await holding.begun()
    await site.gateway.verb(run, Escalate(by="ann", note="good enough?"))
    holding.release()
    return run, await open_gate(site, run)


@pytest.mark.parametrize(
    ("choice", "ending"), [("accept", ("accepted", "approved")), ("stop", ("stopped", "stopped"))]
)
async def test_an_escalation_during_the_completion_check_is_asked_before_the_end(
    site: Installation, holding: Holding, choice: str, ending: tuple[str, str]
) -> None:
    run, gate = await escalated_at_the_end(site, holding)
    assert (gate.kind, gate.prompt) == ("escalation", "good enough?")
    await site.gateway.verb(run, Answer(by="ann", gate=gate.id, choice=choice))
    result = await site.gateway.result(run)
    assert (result.outcome, result.reason, result.output) == (*ending, "glass")
    outcome, reason = result.outcome, result.reason
    assert result.explanation == explain(outcome, reason), "not the end that was put off"


async def test_a_person_who_is_asked_before_the_end_may_let_the_manager_go_on(
    site: Installation, holding: Holding
) -> None:
    again = {**completes("steel"), "when": {"role": "manager", "contains": SAID}}
    run, gate = await escalated_at_the_end(site, holding, again)
    answer = Answer(by="ann", gate=gate.id, choice="continue", text=SAID)
    await site.gateway.verb(run, answer)
    result = await site.gateway.result(run)
    assert (result.outcome, result.output, result.iteration_count) == ("accepted", "steel", 3)


async def test_without_a_further_iteration_a_run_that_may_go_on_ends_as_it_did(
    site: Installation, holding: Holding
) -> None:
    run, gate = await escalated_at_the_end(site, holding, permitted=2)
    await site.gateway.verb(run, Answer(by="ann", gate=gate.id, choice="continue"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.output, result.iteration_count) == ("accepted", "glass", 2)


async def test_what_is_said_to_the_root_reaches_the_loops_below_it(
    site: Installation, holding: Holding
) -> None:
    run = await site.start(
        delegation(),
        script(
            delegates("w1", by="m1"),
            works("w1", delay_s=HELD),
            {**completes("part", by="m1"), "when": told("manager", worker="m1")},
            delegates("m1", sub_manager=True),
            {**completes(), "when": {"role": "manager", "contains": SAID}},
        ),
    )
    await holding.begun()
    await site.gateway.verb(run, AddInput(text=SAID, by="ann"))

    async def below() -> bool:
        (child,) = (await site.status(run)).children
        return [one.text for one in (await site.status(child)).said] == [SAID]

    await eventually(below)
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, result.unread_input) == ("accepted", ())


async def test_what_is_taken_back_at_the_root_holds_no_longer_in_the_loops_below_it(
    site: Installation, holding: Holding
) -> None:
    """Both what the loop was told at its start, and what it was told while it worked."""
    run = await site.start(
        delegation(),
        script(
            delegates("w0"),
            works("w0", delay_s=HELD),
            delegates("m1", sub_manager=True),
            delegates("w1", by="m1"),
            works("w1", delay_s=HELD),
            completes("part", by="m1"),
            completes(),
        ),
    )
    await holding.begun()
    await site.gateway.verb(run, AddInput(text="Said before.", by="ann"))
    holding.release()
    holding.hold()
    await holding.begun(2)
    await site.gateway.verb(run, AddInput(text="Said later.", by="ann"))
    await eventually(lambda: below_holds(site, run, ["Said before.", "Said later."]))
    await site.gateway.verb(run, Amend(remove=(1, 2), by="ann"))
    await eventually(lambda: below_holds(site, run, []))
    holding.release()
    assert (await site.gateway.result(run)).outcome == "accepted"


async def below_holds(site: Installation, run: str, said: list[str]) -> bool:
    """Whether this is what people said that holds in the newest child."""
    child = (await site.status(run)).children[-1]
    return [one.text for one in (await site.status(child)).said] == said


async def test_the_same_work_is_done_again_when_people_said_more(site: Installation) -> None:
    run = await site.start(
        delegation(),
        script(
            delegates("w1"),
            works("w1", "glass", 0.1),
            {"json": {"decision": "escalate", "question": "Of what?"}, "when": {"role": "manager"}},
            delegates("w1"),
            {**works("w1", "steel", 0.9), "when": told("worker", worker="w1")},
            completes("steel"),
        ),
    )
    gate = await eventually(lambda: gate_of(site, run))
    assert gate is not None
    await site.gateway.verb(run, Amend(guidance=SAID, by="ann"))
    await site.gateway.verb(run, Answer(gate=gate.id, text="See there.", by="ann"))
    result = await site.gateway.result(run)
    assert (result.outcome, len(result.spend.by_child)) == ("accepted", 2)


async def test_nobody_is_asked_for_what_only_reviews_side_by_side_hold(
    site: Installation, holding: Holding
) -> None:
    """The first review may use all that is left, and the second fits once it has ended."""
    given = delegation(
        delegation={"critique": {"enabled": True}},
        budget={"tokens": 40_000, "on_exhausted": "ask"},
        models={"settings": {"critic": {"max_output_tokens": 40_000}}},
    )
    review = {"when": {"role": "critic"}, "json": {"score": 0.9, "defects": []}}
    replies = (
        delegates("w1", "w2", acceptance="of steel"),
        works("w1"), works("w2"),
        {**review, "delay_s": HELD}, review,
        completes(),
    )  # fmt: skip
    run = await site.start(given, script(*replies, max_output=100_000))
    await holding.begun()
    assert not (await site.status(run)).gates
    holding.release()
    result = await site.gateway.result(run)
    assert (result.outcome, len(result.iterations)) == ("accepted", 2)
    assert len(await _reviews(site, run)) == 2


async def _reviews(site: Installation, run: str) -> list[str]:
    rows = await site.parts.stores.journal.tree(root=run, run=run)
    return [row.role for row in rows if row.role == "critic"]
