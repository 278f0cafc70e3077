"""People change their minds about an experiment at any moment, also in the one in which it ends."""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest
from experiment_lab import AROUND, Lab, better_each_time
from installation import Installation
from waiting import eventually

from perdure.adapters.stores.experiments import SqlExperiments
from perdure.domain.experiments.store import ExperimentState
from perdure.domain.foundation.errors import InvalidInput, NotAllowed, NotFound
from perdure.domain.specs import RUN_SPEC
from perdure.submission.experiments import more_entries

ONE_ARM: Any = {"single": {"refine.max_iterations": 1}}
SLOW = better_each_time(delay_s=0.3)


@pytest.fixture
def lab(site: Installation) -> Lab:
    return Lab(site)


def _while_it_ends(
    monkeypatch: pytest.MonkeyPatch, *, before: bool, act: Callable[[], Awaitable[object]]
) -> None:
    """Do something once, while the first end is noted: before its row says so, or after."""
    real, done = SqlExperiments.note, asyncio.Event()

    async def note(self: SqlExperiments, id: str, state: ExperimentState, **more: Any) -> None:
        first = state == "ended" and not done.is_set()
        if first and before:
            done.set()
            await act()
        await real(self, id, state, **more)
        if first and not before:
            done.set()
            await act()

    monkeypatch.setattr(SqlExperiments, "note", note)


async def _extend(lab: Lab, id: str, text: str) -> None:
    plan, known = (await lab.experiments.stored(id)).plan, await lab.experiments.entries(id)
    more = more_entries([{"about": text}], plan, known, surroundings=AROUND)
    await lab.experiments.extend(id, more, after=len(known))


@pytest.mark.parametrize("before", [True, False], ids=["before the row", "after the row"])
async def test_inputs_that_arrive_while_the_end_is_noted_are_run(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    id = f"exp-late-{before}".lower()
    _while_it_ends(monkeypatch, before=before, act=lambda: _extend(lab, id, "b"))
    await lab.start(id, "a", arms=ONE_ARM)
    await eventually(lambda: _both(lab, id))
    status = await lab.ended(id)
    assert (status.reason, status.ended, status.trials) == ("completed", 2, 2)


async def _both(lab: Lab, id: str) -> bool:
    return sum(trial.ended for trial in await lab.trials(id)) == 2


@pytest.mark.parametrize("before", [True, False], ids=["before the row", "after the row"])
async def test_a_budget_that_is_raised_while_the_end_is_noted_counts(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    id = f"exp-late-money-{before}".lower()
    raise_it = lambda: lab.experiments.resume(id, cost_usd=Decimal(5))  # noqa: E731
    _while_it_ends(monkeypatch, before=before, act=raise_it)
    await lab.start(id, *"abc", arms=ONE_ARM, budget={"cost_usd": 0.101}, task=CHEAP)
    await eventually(lambda: _completed(lab, id))
    assert (await lab.experiments.status(id)).budget.cost_usd == Decimal(5)


CHEAP: Any = {"budget": {"cost_usd": 0.1, "tokens": 10_000}}


async def _completed(lab: Lab, id: str) -> bool:
    return (await lab.experiments.status(id)).reason == "completed"


async def test_a_budget_is_raised_while_runs_are_open(lab: Lab) -> None:
    id = await lab.start(
        "exp-raised", *"abc", arms=ONE_ARM, budget={"cost_usd": 0.101}, task=CHEAP, script=SLOW
    )
    await lab.experiments.resume(id, cost_usd=Decimal(5), tokens=1_000_000)
    status = await lab.ended(id)
    assert (status.reason, status.ended) == ("completed", 3)
    assert (status.budget.cost_usd, status.budget.tokens) == (Decimal(5), 1_000_000)


async def test_tokens_that_are_spent_can_be_raised(lab: Lab) -> None:
    id = await lab.start(
        "exp-tokens", *"abc", arms=ONE_ARM, budget={"tokens": 10_100}, task=CHEAP, parallel=1
    )
    assert (await lab.ended(id)).reason == "budget"
    with pytest.raises(InvalidInput, match="tokens: found 0"):
        await lab.experiments.resume(id, tokens=0)
    await lab.experiments.resume(id, tokens=100_000)
    assert (await lab.ended(id)).reason == "completed"


@pytest.mark.parametrize(
    ("name", "says"), [("extend", 1_000), ("resume", {"trials": 1_000})], ids=["extend", "resume"]
)
async def test_trials_without_inputs_are_not_believed(lab: Lab, name: str, says: object) -> None:
    id = await lab.start(f"exp-too-many-{name}", *"ab", arms=ONE_ARM, parallel=1, script=SLOW)
    await lab.site.handle(id).signal(name, says)
    await _extend(lab, id, "c")
    status = await lab.ended(id)
    assert (status.reason, status.ended, status.trials) == ("completed", 3, 3)


async def test_resume_takes_back_a_stop_that_waits_for_open_runs(lab: Lab) -> None:
    id = await lab.start("exp-back", *"abc", arms=ONE_ARM, parallel=1, script=SLOW)
    await eventually(lambda: _one_runs(lab, id))
    await lab.experiments.stop(id)
    await lab.experiments.resume(id)
    status = await lab.ended(id)
    assert (status.reason, status.ended) == ("completed", 3)


async def _one_runs(lab: Lab, id: str) -> bool:
    return (await lab.experiments.status(id)).running == 1


async def test_one_that_was_terminated_says_so_and_goes_on(lab: Lab) -> None:
    id = await lab.start("exp-cut", *"abcd", arms=ONE_ARM, parallel=1, script=SLOW)
    await eventually(lambda: _one_runs(lab, id))
    await lab.site.handle(id).terminate("by hand")
    status = await lab.experiments.status(id)
    assert status.running == 0
    assert f"terminated at the server; go on with perdure experiment resume {id}" in status.problem
    await lab.experiments.resume(id)
    assert (await lab.ended(id)).ended == 4
    assert len(await lab.runs(id)) == 4


async def test_one_that_was_terminated_can_be_stopped_and_deleted(lab: Lab) -> None:
    id = await lab.start("exp-cut-off", *"abcd", arms=ONE_ARM, parallel=1, script=SLOW)
    await eventually(lambda: _one_runs(lab, id))
    await lab.site.handle(id).terminate("by hand")
    await lab.experiments.stop(id)
    assert (await lab.experiments.status(id)).reason == "stopped"
    with pytest.raises(NotAllowed, match="has ended"):
        await lab.experiments.stop(id)
    await lab.experiments.delete(id)


async def test_the_id_of_a_run_is_no_id_of_an_experiment(lab: Lab) -> None:
    """Else the run would be taken for it: nothing would start, and a stop would end the run."""
    model = await lab.site.script({"replies": [{"text": "Done.", "delay_s": 3}]})
    task = {"kind": "agent", "goal": "Wait.", "models": {"executor": model}}
    run = await lab.site.gateway.start(RUN_SPEC.validate_python(task), run_id="exp-run")
    with pytest.raises(NotAllowed, match="The id exp-run belongs to a run"):
        await lab.start(run, "a", arms=ONE_ARM)
    with pytest.raises(NotFound):
        await lab.experiments.stop(run)
    assert (await lab.site.gateway.result(run)).outcome == "accepted"
    with pytest.raises(NotAllowed, match="The id exp-run belongs to a run"):
        await lab.start(run, "a", arms=ONE_ARM)
