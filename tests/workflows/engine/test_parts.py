"""Parts of the engine by themselves, with a runner of steps that plays how they end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio import workflow
from temporalio.workflow import ActivityHandle

from perdure.domain.budget.accounting import Budget, BudgetLimits, LimitReached, Spend
from perdure.domain.foundation.retry_policies import LOST_WORKERS, UNHEARD_ROUNDS
from perdure.domain.run.control import Control
from perdure.domain.run.gate_lifecycle import open_gate
from perdure.domain.run.gates import Gate, GateAnswer, GateKind
from perdure.domain.turns.turn import Ending
from perdure.workflows.engine.human_input import HumanInput
from perdure.workflows.engine.limit_questions import LimitQuestions
from perdure.workflows.engine.lost_worker_retries import LostWorkerRetries
from perdure.workflows.engine.model_call_tries import Unpriced
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import Completed, StepFailed, StepRunner
from perdure.workflows.engine.working_folder import WorkingFolder

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LOST = StepFailed("s1", "worker_lost", "the worker was lost")
SHUT_DOWN = StepFailed("s1", "worker_shutdown", "the worker was shut down")
REFUSED = StepFailed("s1", "invalid_input", "no such tool")
NOT_TAKEN = StepFailed("s1", "not_taken", "nobody took it")
GONE = StepFailed("s1", "folder_gone", "it is not there")
UNHEARD = StepFailed("s1", "worker_lost", "the worker was lost", unheard=True)
UNREAD = StepFailed("s1", "unreadable_result", "found nothing")
DONE = Completed("report")


@dataclass
class FakeRun:
    """What the parts ask of a run."""

    interruption: str | None = None
    in_one_piece: bool = False
    state: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(step="call_tool"))
    ids: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def next_activity_id(self) -> str:
        self.ids.append(f"s{len(self.ids) + 1}")
        return self.ids[-1]

    def set_step(self, step: str | None) -> None:
        self.state.step = step

    def record_event(self, event: str, **_: str) -> None:
        self.told.append(event)


@dataclass
class FakeSteps:
    """A runner of steps that plays one end after the other."""

    ends: list[Completed[str] | StepFailed]
    patience: float = 3.0

    async def await_step(
        self, handle: object, *, activity_id: str, patience: float
    ) -> Completed[str] | StepFailed:
        assert handle == f"started {activity_id}"
        assert patience == self.patience
        return self.ends.pop(0)


@dataclass
class FakePeople:
    """People who answer one choice after the other; None is a question that the run left."""

    run: FakeRun
    answers: list[str | None]
    asked: list[str] = field(default_factory=list)

    def open_gate(self, _kind: str, prompt: str, *, subject: str) -> Gate:
        assert subject in prompt
        self.asked.append(subject)
        return Gate(id="g1", kind="blocked", prompt=prompt, choices=("retry", "end"), opened_at=NOW)

    async def wait_for_answer(self, gate: str) -> Gate | None:
        assert self.run.in_one_piece, "a roll here would lose the step"
        self.run.state.step = None
        choice = self.answers.pop(0)
        if choice is None:
            return None
        answer = GateAnswer(choice=choice, text=None, at=NOW, by="me")
        return Gate(
            id=gate, kind="blocked", prompt="", choices=(choice,), opened_at=NOW, answer=answer
        )


@dataclass
class FakeFolder:
    """A folder whose host answers so, once for each question."""

    answers: list[bool] = field(default_factory=list)
    reports: list[object] = field(default_factory=list)

    async def host_answers(self) -> bool:
        return self.answers.pop(0)

    def start_moving(self, activity_id: str) -> str:
        return f"started {activity_id}"

    def note_moved(self, report: object) -> None:
        self.reports.append(report)


@dataclass
class Played:
    """A step that was made until it ended for good."""

    ended: Completed[str] | StepFailed
    run: FakeRun
    asked: list[str]


async def play(
    *ends: Completed[str] | StepFailed,
    answers: tuple[str | None, ...] = (),
    interruption: str | None = None,
    folder: "FakeFolder | None" = None,
    patience: float = 3.0,
) -> Played:
    run = FakeRun(interruption=interruption)
    people = FakePeople(run, list(answers))
    steps = FakeSteps(list(ends), patience)
    folder = folder or FakeFolder()
    part = LostWorkerRetries(
        cast("AnyRun", run),
        cast("StepRunner", steps),
        cast("HumanInput", people),
        cast("WorkingFolder", folder),
    )

    def start(step: str) -> Any:
        return f"started {step}"

    ended = await part.run_with_retries(
        cast("Callable[[str], ActivityHandle[str]]", start), what="fs.read", patience=patience
    )
    assert not steps.ends
    return Played(ended, run, people.asked)


async def test_a_step_that_ends_is_made_once() -> None:
    played = await play(DONE)
    assert (played.ended, played.run.ids, played.asked) == (DONE, ["s1"], [])


async def test_a_step_that_fails_of_itself_is_not_made_again() -> None:
    played = await play(REFUSED)
    assert (played.ended, played.run.ids, played.asked) == (REFUSED, ["s1"], [])


async def test_a_worker_that_was_stopped_on_purpose_asks_nobody() -> None:
    played = await play(SHUT_DOWN, SHUT_DOWN, DONE)
    assert (played.ended, played.run.ids, played.asked) == (DONE, ["s1", "s2", "s3"], [])


@pytest.mark.parametrize("lost", [SHUT_DOWN, UNHEARD, UNREAD], ids=lambda lost: lost.code)
async def test_a_run_that_must_end_makes_no_step_again_but_what_it_owes(
    monkeypatch: pytest.MonkeyPatch, lost: StepFailed
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    played = await play(lost, interruption="stop", patience=0.0)
    assert (played.ended, played.run.ids) == (lost, ["s1"])
    owed = await play(lost, DONE, interruption="stop")
    assert (owed.ended, owed.run.ids) == (DONE, ["s1", "s2"])


@pytest.mark.parametrize(
    ("known", "made"), [(True, LOST_WORKERS), (False, 1)], ids=["now", "as before this version"]
)
async def test_what_a_run_owes_is_not_made_for_ever(
    monkeypatch: pytest.MonkeyPatch, known: bool, made: int
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: known)
    played = await play(*[SHUT_DOWN] * made, interruption="stop")
    assert (played.ended, len(played.run.ids)) == (SHUT_DOWN, made)


@pytest.mark.parametrize(
    ("answers", "ends"),
    [
        pytest.param(("retry",), (LOST, DONE), id="once more"),
        pytest.param(("retry", "retry"), (LOST, LOST, DONE), id="as often as wanted"),
        pytest.param(("end",), (LOST,), id="given up"),
        pytest.param((None,), (LOST,), id="the run ended first"),
        pytest.param(("retry",), (LOST, REFUSED), id="then it fails of itself"),
    ],
)
async def test_a_step_that_breaks_its_workers_asks_a_person(
    answers: tuple[str | None, ...], ends: tuple[Completed[str] | StepFailed, ...]
) -> None:
    played = await play(*ends, answers=answers)
    assert played.ended == ends[-1]
    assert played.asked == ["fs.read"] * len(answers)
    assert len(played.run.ids) == len(ends)
    assert played.run.state.step == "call_tool", "shown again as before the question"
    assert not played.run.in_one_piece


@pytest.mark.parametrize(
    ("lost", "asked"),
    [(1, 0), (UNHEARD_ROUNDS - 1, 0), (UNHEARD_ROUNDS, 1), (2 * UNHEARD_ROUNDS, 2)],
)
async def test_a_network_that_swallows_attempts_is_no_fault_of_the_step(
    lost: int, asked: int
) -> None:
    played = await play(*[UNHEARD] * lost, DONE, answers=("retry",) * asked)
    assert (played.ended, len(played.asked)) == (DONE, asked)


async def test_a_worker_that_was_heard_of_is_lost_for_good() -> None:
    played = await play(UNHEARD, LOST, UNHEARD, DONE, answers=("retry",))
    assert (played.ended, played.asked) == (DONE, ["fs.read"])


@pytest.mark.parametrize(
    ("ends", "answers", "interruption", "made"),
    [
        pytest.param((NOT_TAKEN, DONE), [True], None, 0, id="its host is busy"),
        pytest.param((NOT_TAKEN, NOT_TAKEN, DONE), [True, True], None, 0, id="for longer"),
        pytest.param((NOT_TAKEN, DONE, DONE), [False], None, 1, id="its host is gone"),
        pytest.param((GONE, DONE, DONE), [], None, 1, id="the folder is gone"),
        pytest.param((NOT_TAKEN, LOST, DONE, DONE), [False], None, 1, id="and a worker dies"),
        pytest.param((NOT_TAKEN, NOT_TAKEN, DONE, DONE), [True, False], None, 1, id="then gone"),
        pytest.param((NOT_TAKEN, REFUSED), [False], None, 0, id="it cannot be made anew"),
        pytest.param((NOT_TAKEN, DONE, DONE), [False], "stop", 1, id="what is delivered"),
    ],
)
async def test_a_step_that_nobody_takes_finds_its_folder(
    ends: tuple[Completed[str] | StepFailed, ...],
    answers: list[bool],
    interruption: str | None,
    made: int,
) -> None:
    folder = FakeFolder(list(answers))
    played = await play(
        *ends, answers=("retry",) * ends.count(LOST), folder=folder, interruption=interruption
    )
    given_up = REFUSED in ends
    assert played.ended == (NOT_TAKEN if given_up else DONE)
    assert (len(folder.reports), played.run.told) == (made, ["workspace_moved"] * made)
    assert not folder.answers


@pytest.mark.parametrize(
    ("called", "ending"),
    [
        pytest.param(
            LimitReached(
                dimension="tokens", spent=Decimal(9), limit=Decimal(9), note="tokens: 9 of 9"
            ),
            Ending(outcome="out_of_budget", reason="tokens", detail="tokens: 9 of 9"),
            id="the budget is spent",
        ),
        pytest.param(
            Unpriced(model="claude-x"),
            Ending(
                outcome="out_of_budget",
                reason="unpriced_model",
                detail="nobody knows the price of claude-x",
            ),
            id="nobody knows the price",
        ),
        pytest.param(
            StepFailed("s1", "model_refused", "no"),
            Ending(outcome="failed", reason="model_error", detail="model_refused: no"),
            id="the model failed",
        ),
    ],
)
def test_a_run_ends_as_its_call_failed(
    called: LimitReached | Unpriced | StepFailed, ending: Ending
) -> None:
    part = LimitQuestions(cast("AnyRun", FakeRun()), cast("HumanInput", None))
    assert part.ending_of(called) == ending


@pytest.mark.parametrize(
    ("counted", "known", "goes_on"),
    [(True, True, True), (True, False, False), (False, True, False)],
    ids=["counted at its start", "as before this version", "between two iterations"],
)
async def test_a_raise_lets_the_last_permitted_iteration_finish(
    monkeypatch: pytest.MonkeyPatch, counted: bool, known: bool, goes_on: bool
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: known)
    limits = BudgetLimits(tokens=50_000, iterations=1, on_exhausted="ask")
    state = SimpleNamespace(
        budget=Budget(limits=limits, spent=Spend(tokens=1_000, iterations=1)), control=Control()
    )
    run = SimpleNamespace(state=state, wall_time=0.0, in_counted_iteration=counted)

    async def ask(kind: GateKind, prompt: str, *, within_iteration: bool) -> Gate:
        gate = open_gate(
            state.control, kind=kind, prompt=prompt, now=NOW, within_iteration=within_iteration
        )
        answer = GateAnswer(choice="raise", text=None, at=NOW, by="me")
        return gate.model_copy(update={"answer": answer})

    part = LimitQuestions(cast("AnyRun", run), cast("HumanInput", SimpleNamespace(ask=ask)))
    short = LimitReached(dimension="tokens", spent=Decimal(1_000), limit=Decimal(1_000))
    assert await part.ask_for_budget(short) == goes_on
    assert (await part.ask_or_end_if_spent() is None) == goes_on
