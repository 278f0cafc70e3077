"""When a delegation ends by its own rules, without a server."""

from collections.abc import Awaitable
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.delegation.decisions import Complete, Delegate, Envelope
from perdure.domain.delegation.plan import Node, TaskPlan
from perdure.domain.delegation.progress import ManagerProgress, progress_end
from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.delegation.stall import Measurement, Progress
from perdure.domain.delegation.state import CurrentIteration, DelegationState
from perdure.domain.delegation.worker_review import Reviews
from perdure.domain.evaluation.outcomes import RunEnd
from perdure.domain.turns.turn import Ending
from perdure.workflows import delegation
from perdure.workflows.delegation import DelegationLoop
from perdure.workflows.delegation_parts.questions import Questions
from perdure.workflows.delegation_parts.run import DelegationRun
from perdure.workflows.engine.engine import Engine

SETTINGS = DelegationSettings()
SAME = Measurement(confidence=0.8, output="a", findings="f")
UNCHANGED = ManagerProgress(iteration=9, progress=Progress(readings=(SAME, SAME, SAME), total=3))
DONE = Complete(decision="complete", final_result="r")


async def _conclude(*, unheard: bool) -> Ending | None:
    """How an iteration ends whose completion was put off, in a run whose results are the same."""
    state = SimpleNamespace(course=UNCHANGED, turnover=CurrentIteration(decision=DONE))

    async def unasked(ending: Ending) -> Ending:
        return ending

    def ended_by(end: RunEnd) -> Ending:
        return Ending(outcome=end.outcome, reason=end.reason)

    run = SimpleNamespace(
        state=state,
        spec=SimpleNamespace(delegation=SETTINGS),
        unheard=unheard,
        ending=lambda: None,
        end_by=ended_by,
    )
    loop = object.__new__(DelegationLoop)
    loop.run = cast("DelegationRun", run)
    loop.questions = cast("Questions", SimpleNamespace(before_the_end=unasked))
    return await loop._conclude(None)


async def test_results_that_stay_the_same_end_no_run_that_was_just_told_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    assert progress_end(UNCHANGED, SETTINGS) is not None
    assert await _conclude(unheard=True) is None
    ending = await _conclude(unheard=False)
    assert ending is not None
    assert (ending.outcome, ending.reason) == ("best_effort", "converged")


async def test_a_run_that_rolls_while_its_end_is_asked_about_does_no_work_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    ending = Ending(outcome="best_effort", reason="max_iterations")
    turnover = CurrentIteration(decision=DONE, ending=ending)
    state = SimpleNamespace(course=UNCHANGED, turnover=turnover, stage="obey")
    done: list[str] = []

    async def rolls(_: Ending) -> Ending:
        raise _Rolled

    async def asked(ending: Ending) -> Ending:
        done.append("asked about the end")
        return ending

    async def worked() -> None:
        done.append("worked")

    async def at_once() -> None:
        done.append("escalated")

    loop = object.__new__(DelegationLoop)
    loop.run = cast("DelegationRun", SimpleNamespace(state=state))
    loop.questions = cast(
        "Questions", SimpleNamespace(before_the_end=rolls, escalate_to_person=at_once)
    )
    loop.engine = cast("Engine", SimpleNamespace(rolling=SimpleNamespace(run_in_one_piece=_itself)))
    monkeypatch.setattr(DelegationLoop, "_obey", lambda _: worked())
    with pytest.raises(_Rolled):
        await loop._step()
    # The next execution has the state as it was then.
    loop.questions = cast(
        "Questions", SimpleNamespace(before_the_end=asked, escalate_to_person=at_once)
    )
    assert await loop._escalate_to_person() is None
    assert await loop._step() == ending
    assert done == ["worked", "asked about the end"]
    assert state.stage == "manage"


@pytest.mark.parametrize("ends", ["cut short", "stopped meanwhile", "as it was decided"])
async def test_a_result_is_explained_by_the_end_that_came(
    monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    decided = Ending(outcome="accepted", reason="completed")
    stopped = Ending(outcome="stopped", reason="stopped")
    state = SimpleNamespace(
        verdict="The manager is done.", turnover=CurrentIteration(), unwritten=[]
    )
    settled = stopped if ends == "stopped meanwhile" else None

    async def delivered(_: object) -> None:
        return None

    async def finished(_engine: object, result: str, _records: object) -> str:
        return result

    loop = object.__new__(DelegationLoop)
    run = SimpleNamespace(state=state, id="r", spec=None, wall_time=1.0)
    loop.run = cast("DelegationRun", run)
    engine = SimpleNamespace(
        life=SimpleNamespace(settle_ending=lambda ending: settled or ending),
        snapshots=SimpleNamespace(deliver=delivered),
    )
    loop.engine = cast("Engine", engine)
    monkeypatch.setattr(delegation, "to_hand_over", lambda *_: None)
    monkeypatch.setattr(delegation, "delegation_result", lambda state, **_: state.verdict)
    monkeypatch.setattr(delegation, "finish_and_learn", finished)
    closing = loop._cut_short(stopped) if ends == "cut short" else loop._close(decided)
    told = "The manager is done." if ends == "as it was decided" else ""
    assert await closing == told, "empty: the words of the ending itself are told"


class _Rolled(Exception):
    pass


async def _itself(stage: Awaitable[None]) -> None:
    await stage


@pytest.mark.parametrize(
    ("patched", "left"), [(True, {"s2": 0.9}), (False, {"s1": 0.1, "s2": 0.9})]
)
def test_what_a_new_plan_gives_up_holds_back_no_completion(
    patched: bool, left: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: patched)
    old = TaskPlan(nodes=(Node(id="s1", title="a"), Node(id="s2", title="b")))
    new = TaskPlan(nodes=(Node(id="s2", title="b"),))
    reviews = Reviews(scores={"s1": 0.1, "s2": 0.9})
    run = object.__new__(DelegationRun)
    course = ManagerProgress(plan=new, reviews=reviews)
    run.state = cast("DelegationState", SimpleNamespace(course=course))
    run.drop_given_up(old)
    assert run.state.course.reviews.scores == left


@pytest.mark.parametrize(("id", "asked"), [("S1", True), ("s9", True), ("s1", False)])
def test_only_an_odd_id_of_a_subtask_asks_for_a_patch(
    id: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    run = object.__new__(DelegationRun)
    course = ManagerProgress(plan=TaskPlan(nodes=(Node(id="s1", title="a"),)))
    run.state = cast("DelegationState", SimpleNamespace(course=course))
    work = Envelope(worker="w", instructions="Count.", subtask=id)
    assert run.needs_subtask_matching(Delegate(decision="delegate", delegations=(work,))) is asked
    assert not run.needs_subtask_matching(DONE)
