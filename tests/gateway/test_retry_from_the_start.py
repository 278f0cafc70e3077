"""A retry of a run that left no state to go on from: it starts as the run itself would."""

from datetime import UTC, datetime

from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import DelegationState
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.refine.state import RefineState
from perdure.gateway.retry import _fresh

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def test_a_delegation_keeps_the_tools_of_its_task() -> None:
    granted = {"text.count": "a" * 64}
    tools = {"access": "readonly", "generated": granted}
    spec = DelegationSpec.model_validate({"kind": "delegation", "goal": "g", "tools": tools})
    state = _fresh(spec, NOW, None)
    assert isinstance(state, DelegationState)
    assert state.toolbox.pinned == granted


def test_a_refine_run_remembers_and_keeps_its_clock_and_its_adaptation() -> None:
    spec = RefineSpec.model_validate(
        {
            "kind": "refine",
            "goal": "g",
            "rubric": [{"name": "words", "evaluator": {"check": "contains", "all": ["oak"]}}],
            "refine": {"termination": {"type": "time_bound", "seconds": 60}},
            "hooks": {"adapt": {"name": "coach", "start": {"tone": "calm"}}},
        }
    )
    state = _fresh(spec, NOW, None)
    assert isinstance(state, RefineState)
    assert (state.stage, state.adaptation) == ("recall", {"tone": "calm"})
    assert state.budget.limits.wall_time == 60
