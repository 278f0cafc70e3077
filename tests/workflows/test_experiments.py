"""Experiments on a real server: each run once, within one budget, through kills and stops."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from experiment_lab import AROUND, Lab, better_each_time
from installation import Installation
from pydantic import JsonValue
from temporalio.api.sdk.v1 import WorkflowMetadata
from waiting import eventually

from perdure.adapters.stores.experiments import SqlExperiments
from perdure.domain.experiments.store import ExperimentState
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.run.messages import Retry
from perdure.interfaces.experiments.reading import Found
from perdure.submission.experiments import more_entries


@pytest.fixture
def lab(site: Installation) -> Lab:
    return Lab(site)


async def test_a_loop_is_compared_at_equal_spend(lab: Lab) -> None:
    id = await lab.start("exp-whole", *"abcdef")
    status = await lab.ended(id)
    assert (status.reason, status.ended, status.trials) == ("completed", 18, 18)
    found = await lab.report(id)
    loop, single, best = found.report.arms
    assert (loop.score.mean, single.score.mean, best.score.mean) == (1.0, 0.5, 0.5)
    assert (loop.passed, single.passed) == (1.0, 0.0)
    # Two calls of the loop, so two independent tries for their tokens.
    assert (loop.model_calls, single.model_calls, best.model_calls) == (2.0, 1.0, 2.0)
    sentences = [pair.sentence for pair in found.report.pairs]
    assert "loop beats best_of by 0.50, the same on each input, at the same spend" in sentences[1]
    assert loop.by_iteration == (0.5, 1.0)
    assert found.report.thresholds[0].recommended.setting.max_iterations >= 2
    # Every run is an ordinary one of this installation, labelled with its experiment.
    rows = await lab.site.parts.stores.records.find_runs(prefix="exp-whole-", limit=100)
    assert len(rows) == 6 + 6 + 12
    assert {row.label for row in rows} == {id}
    # To the cent: 24 runs, of which six made a second call.
    assert status.spent_usd == Decimal("0.0015") * (24 + 6)


async def test_the_same_id_is_the_same_experiment(lab: Lab) -> None:
    arms: JsonValue = {"single": {"refine.max_iterations": 1}}
    await lab.start("exp-same", "a", arms=arms)
    await lab.ended("exp-same")
    assert await lab.start("exp-same", "a", arms=arms) == "exp-same"
    assert len(await lab.runs("exp-same")) == 1
    known = await lab.experiments.stored("exp-same")
    assert await lab.experiments.try_repeat("exp-same", sent=known.digest)
    assert not await lab.experiments.try_repeat("exp-same", sent="of another request")
    # One of an earlier version is known by its plan, whatever is kept of a request by now.
    entries = await lab.experiments.entries("exp-same")
    again = await lab.experiments.start(known.plan, entries, id="exp-same", sent="of the request")
    assert again == "exp-same"
    with pytest.raises(NotAllowed, match="another experiment"):
        await lab.start("exp-same", "b", arms=arms)


async def test_the_id_of_a_deleted_experiment_is_not_used_again(lab: Lab) -> None:
    arms: JsonValue = {"single": {"refine.max_iterations": 1}}
    await lab.start("exp-gone-1", "a", arms=arms)
    await lab.ended("exp-gone-1")
    await lab.experiments.delete("exp-gone-1")
    with pytest.raises(NotAllowed, match="such as exp-gone-1-00001-1-single") as refused:
        await lab.start("exp-gone-1", "x", arms=arms, task={"goal": "Something else."})
    assert refused.value.cure == "Choose another id."
    with pytest.raises(NotFound):
        await lab.experiments.status("exp-gone-1")
    # Its runs are not those of an experiment whose id is a beginning of that one.
    await lab.start("exp-gone", "x", arms=arms)
    assert (await lab.ended("exp-gone")).ended == 1


async def test_an_input_with_an_empty_field_runs(lab: Lab) -> None:
    id = await lab.start("exp-empty", None, "a", None, arms={"a": {}})
    await lab.ended(id)
    assert [trial.tries[0].outcome for trial in await lab.trials(id)] == ["accepted"] * 3


@pytest.mark.parametrize("limit", ["x", "", -1, 0, float("nan"), float("inf"), b"5", [5]])
async def test_a_limit_that_is_no_amount_is_not_stored(lab: Lab, limit: Any) -> None:
    id = await lab.start(f"exp-limit-{hash(str(limit))}", "a", arms={"a": {}})
    await lab.ended(id)
    with pytest.raises(InvalidInput, match=r"cost_usd: found .* above 0"):
        await lab.experiments.resume(id, cost_usd=limit)
    assert id in {one.id for one in await lab.experiments.list()}
    assert (await lab.experiments.stored(id)).plan.budget.cost_usd is None


@pytest.mark.long
async def test_what_costs_too_much_is_not_started(lab: Lab) -> None:
    """Each run may spend 20 cents and spends 0.15: of 20.5 cents four begin, one after another."""
    id = await lab.start(
        "exp-budget",
        *"abcdefghij",
        arms={"single": {"refine.max_iterations": 1}},
        task={"budget": {"cost_usd": 0.2, "tokens": 20_000}},
        budget={"cost_usd": 0.205},
        parallel=8,
    )
    status = await lab.ended(id)
    assert status.reason == "budget"
    assert status.spent_usd == 4 * Decimal("0.0015")
    assert status.ended == len(await lab.runs(id)) == 4
    await lab.experiments.resume(id, cost_usd=Decimal(1))
    again = await lab.ended(id)
    assert (again.reason, again.ended) == ("completed", 10)
    assert len(await lab.runs(id)) == 10


async def test_a_paused_experiment_starts_nothing(lab: Lab) -> None:
    id = await lab.start(
        "exp-pause", *"abcdefgh", arms={"a": {}}, parallel=1, script=better_each_time(delay_s=0.2)
    )
    await eventually(lambda: _some(lab, id))
    await lab.experiments.pause(id)
    await eventually(lambda: _still(lab, id))
    begun = await lab.runs(id)
    await asyncio.sleep(1)
    assert await lab.runs(id) == begun
    assert (await lab.experiments.status(id)).state == "paused"
    await lab.experiments.resume(id)
    assert (await lab.ended(id)).ended == 8


@pytest.mark.long
async def test_a_trial_that_ends_while_a_pause_is_noted_is_not_overlooked(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = SqlExperiments.note

    async def slow(self: SqlExperiments, id: str, state: ExperimentState, **more: Any) -> None:
        if state == "paused":
            await asyncio.sleep(0.5)  # for the run that is under way to be in the store
            await eventually(lambda: _settled(lab, id))
            await asyncio.sleep(1)  # for the workflow to hear of it
        await real(self, id, state, **more)

    monkeypatch.setattr(SqlExperiments, "note", slow)
    script = better_each_time(delay_s=0.5)
    id = await lab.start("exp-seen", *"abcdefgh", arms={"a": {}}, parallel=1, script=script)
    await eventually(lambda: _some(lab, id))
    await lab.experiments.pause(id)
    await eventually(lambda: _still(lab, id))
    begun = len(await lab.runs(id))
    assert (await lab.experiments.status(id)).ended == begun
    await lab.experiments.stop(id)
    assert (await lab.ended(id)).ended == begun


async def _settled(lab: Lab, id: str) -> bool:
    """Whether all runs that have begun have ended, and their trials too."""
    ended = [trial for trial in await lab.trials(id) if trial.ended]
    return len(ended) == len(await lab.runs(id))


async def _some(lab: Lab, id: str) -> bool:
    return len(await lab.trials(id)) > 0


async def _still(lab: Lab, id: str) -> bool:
    status = await lab.experiments.status(id)
    return status.state == "paused" and status.running == 0


async def test_a_stopped_experiment_goes_on_where_it_was(lab: Lab) -> None:
    id = await lab.start(
        "exp-stop", *"abcdefgh", arms={"a": {}}, parallel=2, script=better_each_time(delay_s=0.2)
    )
    await eventually(lambda: _some(lab, id))
    await lab.experiments.stop(id)
    status = await lab.ended(id)
    assert status.reason == "stopped"
    assert 0 < status.ended < 8
    with pytest.raises(NotAllowed, match="has ended"):
        await lab.experiments.pause(id)
    before = await lab.trials(id)
    await lab.experiments.resume(id)
    assert (await lab.ended(id)).reason == "completed"
    after = await lab.trials(id)
    assert after[: len(before)] == before
    assert len(await lab.runs(id)) == 8
    with pytest.raises(NotAllowed, match="All 8 trials"):
        await lab.experiments.resume(id)


async def test_what_is_sent_between_the_note_of_an_end_and_the_end_is_refused(lab: Lab) -> None:
    slow = better_each_time(delay_s=60)
    id = await lab.start("exp-noted", "a", arms={"a": {}}, script=slow)
    await eventually(lambda: lab.runs(id))
    store = lab.site.parts.stores.experiments()
    await store.note(id, "ended", reason="stopped", at=datetime.now(UTC))
    pausing = asyncio.create_task(lab.experiments.pause(id))
    await asyncio.sleep(0.2)
    assert not pausing.done()
    await lab.site.handle(id).terminate("the test")
    with pytest.raises(NotAllowed, match="has ended"):
        await pausing


@pytest.mark.parametrize("form", ["now", {"mode": "now", "by": "me"}], ids=["ours", "of the loops"])
async def test_stop_now_stops_the_runs_too(lab: Lab, form: object) -> None:
    slow = better_each_time(delay_s=60)
    id = f"exp-now-{len(str(form))}"
    await lab.start(id, "a", "b", arms={"a": {}}, parallel=2, script=slow)
    await eventually(lambda: _runs_are_open(lab, id))
    if form == "now":
        await lab.experiments.stop(id, now=True)
    else:
        await lab.site.handle(id).signal("stop", form)
    assert (await lab.ended(id)).reason == "stopped"
    assert all(one.outcome == "stopped" for trial in await lab.trials(id) for one in trial.tries)
    assert (await lab.report(id)).report.arms[0].trials == 0


async def _runs_are_open(lab: Lab, id: str) -> bool:
    return (await lab.experiments.status(id)).running == 2 and len(await lab.runs(id)) == 2


async def test_inputs_are_added_while_it_runs_and_after_its_end(lab: Lab) -> None:
    id = await lab.start("exp-more", "a", arms={"single": {"refine.max_iterations": 1}})
    for text in "bc":
        plan, known = (await lab.experiments.stored(id)).plan, await lab.experiments.entries(id)
        more = more_entries([{"about": text}], plan, known, surroundings=AROUND)
        await lab.experiments.extend(id, more, after=len(known))
        await lab.ended(id)
    assert [trial.entry for trial in await lab.trials(id)] == [0, 1, 2]


async def test_a_run_that_fails_counts_as_failed_and_the_rest_goes_on(lab: Lab) -> None:
    entry = {"times": 9, "usage": {"input_tokens": 1, "output_tokens": 1}}
    script = {
        "replies": [
            {**entry, "when": {"contains": "bad"}, "error": "authentication"},
            {**entry, "text": "good and great"},
        ]
    }
    id = await lab.start("exp-fail", "fine", "bad", "well", arms={"a": {}}, script=script)
    assert (await lab.ended(id)).reason == "completed"
    arm = (await lab.report(id)).report.arms[0]
    assert (arm.trials, arm.failed) == (3, 1)
    assert arm.score.mean == pytest.approx(2 / 3, abs=1e-3)


async def test_a_score_that_the_loop_never_saw(lab: Lab) -> None:
    check: JsonValue = {"check": "contains", "all": ["steel"]}
    id = await lab.start("exp-held", "a", "b", arms={"a": {}}, score=check)
    await lab.ended(id)
    found = (await lab.report(id)).report
    assert (found.arms[0].own_score, found.arms[0].score.mean) == (1.0, 0.0)
    assert found.warnings[0].startswith("a scores itself 1.00")


async def test_a_judge_that_the_loop_never_saw(lab: Lab) -> None:
    said = {"text": '{"score": 0.25, "reason": "dull"}', "times": 99}
    judge = await lab.site.script(
        {
            "price": {"input_per_million": 10.0, "output_per_million": 10.0},
            "defaults": {"usage": {"input_tokens": 10, "output_tokens": 10}},
            "replies": [said],
        }
    )
    score: JsonValue = {"judge": "Is it lively?", "model": judge}
    id = await lab.start("exp-judge", "a", "b", arms={"a": {}}, score=score)
    status = await lab.ended(id)
    arm = (await lab.report(id)).report.arms[0]
    assert (arm.own_score, arm.score.mean, arm.passed) == (1.0, 0.25, 0.0)
    one = (await lab.trials(id))[0].tries[0]
    assert (one.why, one.judged) == ("dull", f"{one.run}-judge")
    assert status.spent_usd == 2 * (Decimal("0.003") + Decimal("0.0002"))


async def test_an_unknown_model_stops_it_before_it_starts(lab: Lab) -> None:
    with pytest.raises(InvalidInput, match=r"arms\.odd"):
        await lab.start("exp-odd", "a", arms={"odd": {"models.executor": "no-such-model"}})
    with pytest.raises(NotFound):
        await lab.experiments.status("exp-odd")


@pytest.mark.slow
async def test_a_worker_that_is_killed_twice_changes_nothing(bare: Installation) -> None:
    lab = Lab(bare)
    async with bare.worker_process() as worker:
        script = better_each_time(delay_s=0.05)
        id = await lab.start("exp-kill", *"abcdefgh", parallel=4, script=script)
        for ended in (4, 12):
            await eventually(lambda least=ended: _as_many(lab, id, least))
            await worker.kill()
            await worker.start()
        assert (await lab.ended(id)).reason == "completed"
        killed = await lab.report(id)
        await lab.start("exp-calm", *"abcdefgh", parallel=4, script=script)
        await lab.ended("exp-calm")
        calm = await lab.report("exp-calm")
    assert len(await lab.runs(id)) == len(await lab.runs("exp-calm")) == 8 + 8 + 16
    assert _figures(killed) == _figures(calm)


async def _as_many(lab: Lab, id: str, least: int) -> bool:
    return sum(one.ended for one in await lab.trials(id)) >= least


def _figures(found: Found) -> list[object]:
    """What must not depend on kills: all but times, and calls that were paid twice."""
    report = found.report
    scores = [(arm.name, arm.score, arm.passed, arm.trials, arm.failed) for arm in report.arms]
    return [*scores, *(pair.difference for pair in report.pairs)]


@pytest.mark.slow
async def test_a_long_experiment_continues_as_new(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.workflows.experiment.EVENTS", 60)
    id = await lab.start("exp-long", *"abcdefghijkl", parallel=2)
    first = (await lab.site.handle(id).describe()).run_id
    assert (await lab.ended(id)).ended == 36
    assert (await lab.site.handle(id).describe()).run_id != first
    assert len(await lab.runs(id)) == 12 + 12 + 24


async def test_signals_with_anything_in_them_break_nothing(lab: Lab) -> None:
    slow = better_each_time(delay_s=0.2)
    id = await lab.start("exp-odd-signals", *"abcd", arms={"a": {}}, parallel=1, script=slow)
    handle = lab.site.handle(id)
    for name in ("pause", "resume", "extend", "nonsense"):
        await handle.signal(name, args=[{"x": [1]}, None, "now"])
        await handle.signal(name)
    await handle.signal("extend", args=[True, -3, "7"])
    await eventually(lambda: _tells(lab, id, "extend: found '7'"))
    await handle.signal("resume", "![much](http://far.example)")
    await eventually(lambda: _tells(lab, id, r'found "\!\[much](http://far.example)"'))
    assert (await lab.ended(id)).ended == 4


async def _tells(lab: Lab, id: str, words: str) -> bool:
    query = lab.site.handle(id).query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return words in (await query).current_details


async def test_a_run_that_is_terminated_at_the_server_counts_as_failed(lab: Lab) -> None:
    slow = better_each_time(delay_s=30)
    id = await lab.start("exp-ended", "a", arms={"a": {}}, script=slow)
    await eventually(lambda: _one_is_open(lab, id))
    (run,) = await lab.runs(id)
    await lab.site.handle(run).terminate("by hand")
    assert (await lab.ended(id)).reason == "completed"
    (trial,) = await lab.trials(id)
    assert (trial.tries[0].outcome, trial.tries[0].reason) == ("failed", "terminated")
    with pytest.raises(NotAllowed, match=f"works for {id}") as refused:
        await lab.site.gateway.verb(run, Retry(by="me"))
    assert f"perdure experiment report {id}." in refused.value.cure


async def _one_is_open(lab: Lab, id: str) -> bool:
    if not await lab.runs(id):
        return False
    (run,) = await lab.runs(id)
    return (await lab.site.status(run)).phase == "executing"


async def test_one_that_was_terminated_is_taken_up_without_running_anything_twice(lab: Lab) -> None:
    slow = better_each_time(delay_s=0.3)
    id = await lab.start("exp-again", *"abcd", arms={"a": {}}, parallel=2, script=slow)
    await eventually(lambda: _some(lab, id))
    await lab.site.handle(id).terminate("by hand")
    before = await lab.trials(id)
    await lab.start("exp-again", *"abcd", arms={"a": {}}, parallel=2, script=slow)
    assert (await lab.ended(id)).ended == 4
    after = await lab.trials(id)
    assert all(trial in after for trial in before)
    assert len(await lab.runs(id)) == 4
    assert (await lab.experiments.status(id)).spent_usd == 4 * Decimal("0.003")


async def test_the_web_uis_cancel_stops_it(lab: Lab) -> None:
    slow = better_each_time(delay_s=30)
    id = await lab.start("exp-cancel", "a", "b", arms={"a": {}}, parallel=2, script=slow)
    await eventually(lambda: _runs_are_open(lab, id))
    await lab.site.handle(id).cancel()
    assert (await lab.ended(id)).reason == "stopped"
