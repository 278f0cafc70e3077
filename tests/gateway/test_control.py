import pytest
from waiting import eventually

from perdure.domain.foundation.errors import InvalidInput, NoReadyWorker, NotAllowed, NotFound
from perdure.domain.run.messages import (
    AddInput,
    Amend,
    Answer,
    AnyMessage,
    Pause,
    Receipt,
    Resume,
    Stop,
)
from perdure.gateway.temporal_gateway import TemporalGateway
from tests.gateway.tiny import Site, row, spec


async def test_a_refusal_is_the_validators_sentence_alone(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    receipt = await site.gateway.verb(run, Pause())
    with pytest.raises(NotAllowed) as caught:
        await site.gateway.verb(run, Pause())

    assert (receipt.verb, receipt.lifecycle) == ("pause", "paused")
    assert str(caught.value) == "the run is paused already"


async def test_a_repeated_request_has_one_effect(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    for _ in range(3):
        await site.gateway.verb(run, AddInput(text="once", request_id="r1"))
    await site.gateway.verb(run, Stop())

    assert (await site.gateway.result(run)).unread_input == ("once",)


@pytest.mark.parametrize(
    ("length", "stored"), [(8192, False), (8193, True)], ids=["at the limit", "above it"]
)
async def test_long_input_is_stored_as_a_blob(site: Site, length: int, stored: bool) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    receipt = await site.gateway.verb(run, AddInput(text="x" * length))

    assert bool(receipt.note) is stored
    if stored:
        assert await site.blobs.get_text(receipt.note) == "x" * length


async def test_other_long_texts_are_refused_before_they_are_sent(site: Site) -> None:
    with pytest.raises(InvalidInput, match="8200 bytes"):
        await site.gateway.verb("any", Amend(guidance="x" * 8200))


async def test_without_a_worker_the_answer_is_no_ready_worker(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec("ask"))
    await site.rest()

    with pytest.raises(NoReadyWorker, match="No worker answers"):
        await site.impatient.verb(run, Answer(gate="g1", choice="a"))


async def test_an_ended_run_refuses_and_says_that_it_ended(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())
    await site.gateway.verb(run, Stop())
    await site.gateway.result(run)
    await site.records.put_run(row("old-1"))

    with pytest.raises(NotAllowed, match=r"has ended \(stopped\)"):
        await site.gateway.verb(run, Pause())
    with pytest.raises(NotAllowed, match="has ended"):
        await site.gateway.verb("old-1", Pause())
    with pytest.raises(NotFound):
        await site.gateway.verb("nowhere", Pause())


async def test_a_verb_on_a_tree_counts_what_was_taken_and_what_refused(site: Site) -> None:
    await site.work()
    run = await site.gateway.start(spec())

    async def listed() -> bool:
        return (await site.gateway.verb_all(Resume(), root=run)).matched == 1

    await eventually(listed)
    first = await site.gateway.verb_all(Pause(), root=run)
    second = await site.gateway.verb_all(Pause(), root=run)

    assert (first.taken, first.refused) == ((run,), {})
    assert (second.taken, second.refused) == ((), {run: "the run is paused already"})
    assert "last seconds may be missing" in second.note


async def test_a_verb_on_all_runs_of_a_kind_reaches_each(site: Site) -> None:
    await site.work()
    runs = [await site.gateway.start(spec()) for _ in range(3)]

    async def listed() -> bool:
        found = await site.gateway.verb_all(AddInput(text="hello"), kind="agent")
        return set(runs) <= set(found.taken)

    await eventually(listed)
    assert (await site.gateway.verb_all(AddInput(text="x"), kind="roles")).matched == 0


async def test_a_run_whose_answer_came_too_late_is_not_told_as_silent(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await site.work()
    run, other = [await site.gateway.start(spec()) for _ in range(2)]
    update = TemporalGateway.update

    async def late(
        server: TemporalGateway, sent_to: str, verb: str, message: AnyMessage
    ) -> Receipt:
        if sent_to == run:
            await update(server, sent_to, verb, message)
            await site.gateway.result(run)
        raise NoReadyWorker("No worker answers.")

    async def listed() -> bool:
        found = [await site.gateway.verb_all(AddInput(text="x"), root=one) for one in (run, other)]
        return all(report.matched for report in found)

    await eventually(listed)
    monkeypatch.setattr(TemporalGateway, "update", late)
    stopped = await site.gateway.verb_all(Stop(), root=run)
    unheard = await site.gateway.verb_all(Stop(), root=other)
    assert stopped.refused == {run: "the run has ended meanwhile"}
    assert unheard.refused == {other: "No worker answers."}


@pytest.mark.long
async def test_open_gates_are_listed_oldest_first_and_unread_ones_named(site: Site) -> None:
    await site.work()
    runs = [await site.gateway.start(spec("ask")) for _ in range(2)]

    async def listed() -> bool:
        return len(await mine()) == 2

    async def mine() -> list[str]:
        return [item.run for item in (await site.gateway.gates()).gates if item.run in runs]

    await eventually(listed)
    assert await mine() == runs
    await site.rest()
    assert set(runs) <= set((await site.impatient.gates()).unread)
