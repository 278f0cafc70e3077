"""The block `delegation:` has the defaults of its contract and refuses what makes no sense."""

import pytest
from pydantic import JsonValue, ValidationError

from perdure.domain.delegation.spec import DelegationSettings


def test_the_defaults_are_those_of_the_contract() -> None:
    assert DelegationSettings().model_dump(mode="json") == {
        "max_iterations": 100,
        "success_criteria": [],
        "full_results_window": 3,
        "workers_per_iteration": 6,
        "parallel": 16,
        "min_confidence": 0.3,
        "completion_rejections": 2,
        "submanagers": {"at_once": 3, "per_run": 6, "fraction": 0.3},
        "stall": {
            "window": 3,
            "min_confidence_delta": 0.05,
            "similarity": 0.85,
            "fresh_window": True,
        },
        "strategies": ["decompose_finer", "simplify", "reframe", "escalate"],
        "critique": {"enabled": True, "repairs": 2, "min_mean": 0.6},
        "evaluation": {"accept": 0.8, "warn": 0.6, "repair": 0.4},
        "evaluator_share": 0.3,
        "judge": {"cache": "run"},
        "tools_factory": {
            "enabled": True,
            "approve": False,
            "per_agent": 10,
            "per_run": 50,
            "repairs": 2,
            "namespaces": [],
            "worker_namespaces": {},
        },
        "output_schema": None,
        "deliverables": [],
        "smoke_test": None,
    }


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"max_iterations": 0}, "greater than or equal to 1"),
        ({"parallel": 17}, "less than or equal to 16"),
        ({"strategies": ["reframe", "reframe"]}, "each strategy once .*reframe"),
        ({"strategies": ["panic"]}, "decompose_finer"),
        ({"evaluation": {"accept": 0.5}}, "thresholds that fall"),
        ({"stall": {"window": 1}}, "greater than or equal to 2"),
        ({"success_criteria": ["  "]}, "one of them is blank"),
        ({"submanagers": {"fraction": 0}}, "greater than 0"),
        ({"workers": 3}, "Extra inputs"),
    ],
    ids=lambda value: None if isinstance(value, str) else next(iter(value)),
)
def test_what_makes_no_sense_is_refused(fields: dict[str, JsonValue], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        DelegationSettings.model_validate(fields)


def test_an_empty_list_of_strategies_is_allowed() -> None:
    assert DelegationSettings(strategies=()).strategies == ()
