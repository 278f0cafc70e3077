"""The best draft is scored anew in the execution that takes the amended rubric."""

from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.run.control import Control
from perdure.workflows.engine.continue_as_new import ContinueAsNew
from perdure.workflows.engine.engine import Engine
from perdure.workflows.engine.resets import Resets
from perdure.workflows.engine.run import AnyRun
from perdure.workflows.engine.stored_terms import StoredTerms
from perdure.workflows.refine_parts import amendments
from perdure.workflows.refine_parts.amendments import Amendments
from perdure.workflows.refine_parts.evaluation import EvaluationStage
from perdure.workflows.refine_parts.run import RefineRun

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
        demands="goal",
        frame_part=lambda _: {},
        record_event=lambda *_, **__: None,
    )
    seen: list[tuple[str, bool]] = []

    async def rescore(output: str) -> str:
        # Its judge may ask a person for a larger budget, and the run would roll while it waits.
        seen.append((output, run.in_one_piece))
        return "scored"

    async def reframed(*_: object, **__: object) -> SimpleNamespace:
        return SimpleNamespace(frame="f2", task_tokens=1)

    def rescored(_: object, evaluation: str, rubric: Rubric, *, demands: str) -> None:
        assert (evaluation, rubric, demands) == ("scored", run.rubric, "goal")

    monkeypatch.setattr(workflow, "patched", lambda _: True)
    monkeypatch.setattr(amendments, "reframe", reframed)
    monkeypatch.setattr(amendments, "rescore_best", rescored)
    rolling = ContinueAsNew(cast("AnyRun", run), cast("StoredTerms", None), cast("Resets", None))
    engine = SimpleNamespace(rolling=rolling)
    evaluation = SimpleNamespace(rescore=rescore)
    adopting = Amendments(
        cast("RefineRun", run), cast("Engine", engine), cast("EvaluationStage", evaluation)
    )
    await adopting.adopt()
    assert seen == [("the best", True)]
    assert (run.in_one_piece, state.frame) == (False, "f2")
