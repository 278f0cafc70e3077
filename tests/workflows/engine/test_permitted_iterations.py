"""How many iterations a refine run counts with."""

from collections.abc import Mapping

import pytest
from temporalio import workflow

from perdure.domain.refine.spec import RefineSettings
from perdure.workflows.refine_parts.run import permitted_iterations

ONCE = {"type": "max_iterations", "limit": 1}
GOAL = {"type": "goal_bound", "max_iterations": 4}
MANUAL = {"type": "manual"}


@pytest.mark.parametrize(
    ("given", "permitted", "before"),
    [
        pytest.param({"termination": ONCE}, 1, 10, id="of a tree"),
        pytest.param({"termination": GOAL}, 4, 10, id="of a goal"),
        pytest.param({"termination": MANUAL}, 10, 10, id="a tree without any"),
        pytest.param({"max_iterations": 2}, 2, 2, id="no tree"),
    ],
)
def test_the_limit_of_a_termination_tree_counts(
    given: Mapping[str, object], permitted: int, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = RefineSettings.model_validate(given)
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    assert permitted_iterations(settings) == permitted
    # As in histories from before.
    monkeypatch.setattr(workflow, "patched", lambda _: False)
    assert permitted_iterations(settings) == before
