"""What a run below asks is seen and answered at the root, at every level, and by every way."""

from collections.abc import Awaitable, Callable

import pytest
from agent_runs import call, calls, gate_of
from delegating import completes, decides, delegates, delegation, script, works
from installation import Installation
from rest import served
from waiting import eventually

from perdure.domain.run.child_questions import Question
from perdure.domain.run.messages import Answer
from perdure.interfaces.run_tree import open_gates

ASKING = {"tools": {"access": "readonly"}}
TEA = call("human.ask", question="Tea or coffee?", choices=["tea", "coffee"])


def asks(worker: str) -> dict[str, object]:
    """A worker's reply that puts a question to people."""
    return {**calls(TEA), "when": {"role": "worker", "worker": worker}}


async def asked_below(site: Installation, run: str, *, number: int = 1) -> tuple[Question, ...]:
    """What is asked below a run, once it is told."""

    async def told() -> bool:
        return len((await site.status(run)).questions) == number

    await eventually(told)
    return (await site.status(run)).questions


async def by_name(site: Installation, run: str, asked: Question) -> None:
    await site.gateway.verb(run, Answer(gate=asked.gate, choice="tea", by="t"))


async def by_run_and_name(site: Installation, run: str, asked: Question) -> None:
    await site.gateway.verb(run, Answer(gate=asked.key, choice="tea", by="t"))


async def at_the_child(site: Installation, run: str, asked: Question) -> None:
    del run
    await site.gateway.verb(asked.run, Answer(gate=asked.gate, choice="tea", by="t"))


async def by_a_signal_to_the_root(site: Installation, run: str, asked: Question) -> None:
    await site.handle(run).signal("answer", {"gate": asked.key, "choice": "tea"})


async def over_rest(site: Installation, run: str, asked: Question) -> None:
    """The list of gates tells where it is asked; there it is answered, or at the root."""
    async with served(site) as door:
        listed = (await door.client.get("/api/v1/gates")).json()["items"]
        assert asked.run in [item["run"] for item in listed]
        at = f"/api/v1/loops/{run}/gates/{asked.key}/answer"
        answer = await door.client.post(at, json={"choice": "tea"})
        assert answer.status_code == 200, answer.text


async def over_rest_at_the_child(site: Installation, run: str, asked: Question) -> None:
    del run
    async with served(site) as door:
        at = f"/api/v1/loops/{asked.run}/gates/{asked.gate}/answer"
        answer = await door.client.post(at, json={"choice": "tea"})
        assert answer.status_code == 200, answer.text


WAYS = [
    by_name,
    by_run_and_name,
    at_the_child,
    by_a_signal_to_the_root,
    over_rest,
    pytest.param(over_rest_at_the_child, marks=pytest.mark.slow),
]


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
async def test_a_question_two_levels_down_is_seen_and_answered(
    site: Installation, way: Callable[[Installation, str, Question], Awaitable[None]]
) -> None:
    run = await site.start(
        delegation(**ASKING),
        script(
            delegates("w1", by="m1"),
            asks("w1"),
            works("w1", "tea"),
            completes("tea", by="m1"),
            delegates("m1", sub_manager=True),
            completes("tea"),
        ),
    )
    (asked,) = await asked_below(site, run)
    assert (asked.path, asked.prompt) == (("m1", "w1"), "Tea or coffee?")
    status = await site.status(run)
    assert (status.blocked_on, status.lifecycle, status.gates) == ("question", "running", ())
    attributes = (await site.handle(run).describe()).search_attributes
    assert attributes["PerdureBlockedOn"] == ["question"]
    (gate,) = (await open_gates(site.gateway, run)).gates
    assert (gate.run, gate.path, gate.gate.choices) == (asked.run, asked.path, asked.choices)

    await way(site, run, asked)
    result = await site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "tea")
    assert (await site.status(run)).blocked_on is None


@pytest.mark.long
async def test_answers_that_mean_nothing_below_are_refused_at_once(site: Installation) -> None:
    run = await site.start(
        delegation(**ASKING),
        script(delegates("w1", "w2"), asks("w1"), asks("w2"), works("w1"), works("w2"),
               completes()),
    )  # fmt: skip
    first, second = await asked_below(site, run, number=2)
    for answer, why in (
        (Answer(gate="g1", choice="tea"), "several runs below have a gate 'g1'"),
        (Answer(gate="g7", choice="tea"), "no gate"),
        (Answer(gate=f"{first.run}:g1", choice="milk"), "is not one of tea, coffee"),
    ):
        with pytest.raises(Exception, match=why):
            await site.gateway.verb(run, answer)
    for asked in (first, second):
        await by_run_and_name(site, run, asked)
    assert (await site.gateway.result(run)).outcome == "accepted"


async def test_a_question_goes_with_the_run_that_asked(site: Installation) -> None:
    run = await site.start(
        delegation(**ASKING), script(delegates("w1"), asks("w1"), completes("steel"))
    )
    (asked,) = await asked_below(site, run)
    await site.handle(asked.run).terminate()
    result = await site.gateway.result(run)
    assert result.output == "steel"
    status = await site.status(run)
    assert (status.questions, status.blocked_on) == ((), None)


@pytest.mark.long
async def test_only_an_open_child_is_heard_and_about_its_own_tree(site: Installation) -> None:
    run = await site.start(
        delegation(**ASKING), script(delegates("w1"), asks("w1"), works("w1"), completes())
    )
    (asked,) = await asked_below(site, run)
    false = asked.model_copy(update={"run": "agent-another"})
    for told in (
        {"run": "agent-another", "questions": []},
        {"run": asked.run, "questions": [false.model_dump(mode="json")]},
        "nonsense",
    ):
        await site.handle(run).signal("questions_below", told)
    status = await site.status(run)
    assert [question.key for question in status.questions] == [asked.key]
    assert status.refused_count == 3
    await by_name(site, run, asked)
    assert (await site.gateway.result(run)).outcome == "accepted"


async def test_a_manager_asks_the_manager_above_before_any_person(site: Installation) -> None:
    told = {"role": "manager", "contains": "Which colour? (choices: red, blue)"}
    run = await site.start(
        delegation(),
        script(
            decides("escalate", worker="m1", question="Which colour?", choices=["red", "blue"]),
            delegates("m1", sub_manager=True),
            {**decides("escalate", question="Red or blue?"), "when": told},
            completes("a red bottle"),
        ),
    )
    await eventually(lambda: gate_of(site, run))
    gate = await gate_of(site, run)
    assert gate is not None and gate.prompt == "Red or blue?"
    await site.gateway.verb(run, Answer(gate=gate.id, text="red", by="t"))
    result = await site.gateway.result(run)
    assert (result.outcome, result.output) == ("accepted", "a red bottle")
    (below,) = (await site.status(run)).runs_below
    assert (below.outcome, below.reason) == ("blocked", "asked_above")
