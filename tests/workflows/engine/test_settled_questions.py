"""A question that an earlier execution asked is closed where this one need not ask it."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.run.control import Control
from perdure.domain.run.gate_lifecycle import open_gate
from perdure.domain.run.gates import GateAnswer
from perdure.workflows.engine.continue_as_new import ContinueAsNew
from perdure.workflows.engine.human_input import HumanInput
from perdure.workflows.engine.limit_questions import LimitQuestions
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import StepRunner

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A run whose earlier execution asked about the budget."""
    monkeypatch.setattr(workflow, "now", lambda: NOW)
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    control, told = Control(), []
    gate = open_gate(control, kind="budget", prompt="More?", now=NOW)
    return SimpleNamespace(
        state=SimpleNamespace(control=control, asking={"budget": gate.id, "review": "g0"}),
        told=told,
        record_event=lambda event, **_: told.append(event),
        sync_visibility=lambda: told.append("listed"),
        set_step=lambda _: None,
    )


def _people(run: SimpleNamespace) -> HumanInput:
    return HumanInput(cast("AnyRun", run), cast("StepRunner", None), cast("ContinueAsNew", None))


def _found_enough(run: SimpleNamespace, people: HumanInput) -> None:
    LimitQuestions(cast("AnyRun", run), people).close_budget_question()


def test_it_is_closed_as_answered_by_the_amendment(run: SimpleNamespace) -> None:
    _found_enough(run, _people(run))
    state = run.state
    answer = state.control.gates["g1"].answer
    assert (answer.choice, answer.by) == ("raise", "amend")
    assert (state.asking, state.control.awaited) == ({"review": "g0"}, [])
    assert run.told == ["gate_answered", "listed"]


def test_an_answer_that_came_first_stays_and_is_not_read_later(run: SimpleNamespace) -> None:
    state = run.state
    said = GateAnswer(choice="raise", text=None, by="ann", at=NOW)
    state.control.gates["g1"] = state.control.gates["g1"].model_copy(update={"answer": said})
    _found_enough(run, _people(run))
    assert state.control.gates["g1"].answer == said
    assert (state.asking, state.control.awaited, run.told) == ({"review": "g0"}, [], [])


async def test_one_that_a_step_beside_waits_for_stays_open(
    run: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = _people(run)

    async def answered(*_: str) -> None:
        _found_enough(run, people)
        assert run.state.control.gates["g1"].open

    monkeypatch.setattr(people, "wait_for_answer", answered)
    await people.ask("budget", "More?")
    assert run.told == []


def test_an_execution_of_an_older_version_goes_on_as_it_did(
    run: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: False)
    _found_enough(run, _people(run))
    assert run.state.control.gates["g1"].open
    assert run.state.asking["budget"] == "g1"
