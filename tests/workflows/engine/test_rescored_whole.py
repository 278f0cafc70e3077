"""The best draft is scored anew in the execution that takes the amended rubric."""

from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.run.control import Control
from perdure.workflows import refine
from perdure.workflows.engine.continue_as_new import ContinueAsNew
from perdure.workflows.engine.resets import Resets
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.stored_terms import StoredTerms
from perdure.workflows.refine import RefineLoop

OAK = [{"name": "oak", "evaluator": {"check": "contains", "all": ["oak"]}}]


async def test_no_roll_comes_between_a_rubric_and_the_score_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    control = Control.model_validate({"rubric": OAK})
    kept = SimpleNamespace(output="the best")
    state = SimpleNamespace(
        control=control,
        frame="f",
        rubric=None,
        kept=kept,
        best=None,
        draft=SimpleNamespace(reviewing=False),
    )
    run = SimpleNamespace(
        state=state,
        rubric=Rubric.model_validate(OAK),
        ending=lambda: None,
        in_one_piece=False,
        record_event=lambda *_, **__: None,
    )
    seen: list[tuple[str, bool]] = []

    async def rescore(output: str) -> str:
        # Its judge may ask a person for a larger budget, and the run would roll while it waits.
        seen.append((output, run.in_one_piece))
        return "scored"

    async def reframed(*_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(frame="f2", task_tokens=1)

    def rescored(_: object, evaluation: str, rubric: Rubric) -> None:
        assert (evaluation, rubric) == ("scored", run.rubric)

    monkeypatch.setattr(workflow, "patched", lambda _: True)
    monkeypatch.setattr(refine, "reframed", reframed)
    monkeypatch.setattr(refine, "rescored", rescored)
    loop = object.__new__(RefineLoop)
    rolling = ContinueAsNew(cast("AnyRun", run), cast("StoredTerms", None), cast("Resets", None))
    loop.run = run  # type: ignore[assignment]
    loop.engine = SimpleNamespace(rolling=rolling)  # type: ignore[assignment]
    loop.evaluation = SimpleNamespace(rescore=rescore)  # type: ignore[assignment]
    loop._extra = lambda _: {}  # type: ignore[method-assign]
    await loop._adopt_rubric()
    assert seen == [("the best", True)]
    assert (run.in_one_piece, state.frame) == (False, "f2")
