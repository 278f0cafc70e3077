"""What is amended stays asked for until a step has adopted it."""

from types import SimpleNamespace
from typing import cast

import pytest
from temporalio import workflow

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.run.control import Control
from perdure.workflows import refine
from perdure.workflows.refine import RefineLoop

OAK = [{"name": "oak", "evaluator": {"check": "contains", "all": ["oak"]}}]
ELM = [{"name": "elm", "evaluator": {"check": "contains", "all": ["elm"]}}]


@pytest.mark.parametrize(
    ("meanwhile", "kept"),
    [
        pytest.param({}, ("Name oaks.", OAK), id="nothing else was said"),
        pytest.param({"goal": "Name elms."}, ("Name elms.", OAK), id="another goal"),
        pytest.param({"rubric": ELM}, ("Name oaks.", ELM), id="another rubric"),
    ],
)
async def test_an_amendment_outlives_a_step_that_fails(
    meanwhile: dict[str, object], kept: tuple[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    control = Control.model_validate({"goal": "Name oaks.", "rubric": OAK})

    async def fails(*_: object, **__: object) -> None:
        assert (control.goal, control.rubric) == (None, None)
        for name, value in meanwhile.items():
            setattr(control, name, value)

    monkeypatch.setattr(refine, "reframed", fails)
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    state = SimpleNamespace(control=control, frame="f")
    run = SimpleNamespace(state=state, rubric=Rubric.model_validate(OAK), ending=lambda: None)
    loop = SimpleNamespace(run=run, engine=None, _extra=lambda _: {})
    await RefineLoop._adopt_rubric(cast(RefineLoop, loop))
    assert (control.goal, control.rubric) == kept
    assert state.frame == "f"
