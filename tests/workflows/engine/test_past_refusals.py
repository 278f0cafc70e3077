"""Calls side by side whose model refuses or fails: none skips a model, and none goes back."""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.delegation.messages import ReviewReport
from perdure.domain.llm.requests import ModelProfile
from perdure.domain.run.activity_messages import ModelCallReport
from perdure.workflows.engine.calls_beside import CallsBeside
from perdure.workflows.engine.fitting import Fitting
from perdure.workflows.engine.limit_questions import LimitQuestions
from perdure.workflows.engine.lost_worker_retries import LostWorkerRetries
from perdure.workflows.engine.model_call_spec import ModelCallSpec
from perdure.workflows.engine.model_call_tries import Called
from perdure.workflows.engine.model_caller import ModelCaller
from perdure.workflows.engine.policies import ModelSelection
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.step_runner import StepFailed, StepRunner

REVIEW = ModelCallSpec(role="critic", phase="evaluating", summary="review")


@dataclass
class FakeRun:
    """What a call asks of a run whose critic has so many models."""

    chain: tuple[str, ...]
    events: list[tuple[object, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        cards = {name: ModelProfile(name=name, price=None) for name in self.chain}
        self.state = SimpleNamespace(chain_index={}, cards=cards)
        self.spec = SimpleNamespace(models=SimpleNamespace(chain=lambda _: self.chain))

    def record_event(self, _event: str, **data: object) -> None:
        self.events.append((data["failed"], data["to"]))


def caller_of(run: FakeRun) -> ModelCaller:
    return ModelCaller(
        cast("AnyRun", run),
        steps=cast("StepRunner", None),
        retries=cast("LostWorkerRetries", None),
        limits=cast("LimitQuestions", None),
        selection=ModelSelection(cast("AnyRun", run)),
        fitting=cast("Fitting", SimpleNamespace(left_out=lambda *_: "")),
        beside=CallsBeside(cast("AnyRun", run)),
    )


async def reviewed(
    run: FakeRun, *, refusing: str, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, bool]]:
    """Two reviews at once: the model that each ended with, and whether that refused too."""

    async def on_model(
        _self: ModelCaller, _ask: ModelCallSpec, model: str, **_: object
    ) -> ReviewReport:
        await asyncio.sleep(0)
        stop = "refusal" if model in refusing else "end_turn"
        call = ModelCallReport(status="replied", model=f"{model}-2026", stop_reason=stop)
        return ReviewReport(call=call)

    monkeypatch.setattr(ModelCaller, "_on_model", on_model)
    caller = caller_of(run)
    ends: list[Called] = await asyncio.gather(
        *(caller.call_structured(lambda _: REVIEW) for _ in range(2))
    )
    found = [one for one in ends if isinstance(one, ReviewReport)]
    return [(one.call.model, bool(one.problems)) for one in found]


@pytest.mark.parametrize(
    ("chain", "refusing", "end", "events"),
    [
        pytest.param("ab", "a", ("b-2026", False), [("a", "b")], id="the only fallback"),
        pytest.param("abc", "a", ("b-2026", False), [("a", "b")], id="the next of two"),
        pytest.param("abc", "ab", ("c-2026", False), [("a", "b"), ("b", "c")], id="twice"),
        pytest.param("ab", "ab", ("b-2026", True), [("a", "b")], id="all refuse"),
    ],
)
async def test_no_review_skips_a_model(
    chain: str,
    refusing: str,
    end: tuple[str, bool],
    events: list[tuple[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    run = FakeRun(tuple(chain))
    assert await reviewed(run, refusing=refusing, monkeypatch=monkeypatch) == [end, end]
    assert run.events == events


async def test_a_run_from_before_goes_on_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: False)
    run = FakeRun(("a", "b", "c"))
    ends = await reviewed(run, refusing="a", monkeypatch=monkeypatch)
    assert ends == [("b-2026", False), ("c-2026", False)]


@pytest.mark.parametrize(
    ("patched", "asked"),
    [
        pytest.param(True, ["a", "a", "b", "c", "c"], id="goes on where the other is"),
        pytest.param(False, ["a", "a", "b", "c", "b", "c"], id="a run from before"),
    ],
)
async def test_a_review_that_fails_late_asks_no_model_that_has_failed_the_other(
    monkeypatch: pytest.MonkeyPatch, *, patched: bool, asked: list[str]
) -> None:
    """Two reviews at once: the second hears that its first model fails when the first is done."""
    tried: list[str] = []
    first_is_done = asyncio.Event()

    async def on_model(
        _self: ModelCaller, ask: ModelCallSpec, model: str, **_: object
    ) -> ReviewReport | StepFailed:
        tried.append(model)
        await asyncio.sleep(0)
        if ask.summary == "slow":
            await first_is_done.wait()
        if model != "c":
            return StepFailed("", "model_server", f"{model} is down")
        first_is_done.set()
        return ReviewReport(call=ModelCallReport(status="replied", model=model))

    monkeypatch.setattr(ModelCaller, "_on_model", on_model)
    monkeypatch.setattr(workflow, "patched", lambda _: patched)
    run = FakeRun(("a", "b", "c"))
    caller = caller_of(run)
    quick, slow = (
        ModelCallSpec(role="critic", phase="evaluating", summary=pace) for pace in ("quick", "slow")
    )
    await asyncio.gather(caller.call_model(quick), caller.call_model(slow))
    assert tried == asked
    assert run.state.chain_index == {"critic": 2}
