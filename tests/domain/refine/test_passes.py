"""What passes by all that decides is done: nothing that a score says throws it away."""

from collections.abc import Mapping

import pytest

from perdure.domain.evaluation.check_termination import TerminationFacts
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import DimensionScore, Evaluation, Finding, overall_score
from perdure.domain.evaluation.trajectory import Trajectory
from perdure.domain.refine.spec import RefineSettings
from perdure.domain.refine.stop_rules import Facts, decide

MANY = {"max_iterations": 9, "improvement_threshold": None}
TREE = {"termination": {"type": "confidence", "threshold": 0.99}}


def facts(scores: list[float], settings: Mapping[str, object], **more: object) -> Facts:
    trajectory = Trajectory()
    for score in scores:
        trajectory = trajectory.after(score)
    return Facts(
        loop=TerminationFacts(trajectory=trajectory, repeated=bool(more.pop("repeated", False))),
        settings=RefineSettings.model_validate(settings),
        **more,  # type: ignore[arg-type]
    )


FALLS: list[object] = [
    pytest.param([1.0, 0.1], MANY, {}, id="a fall from the draft before"),
    pytest.param([0.9, 0.8, 0.6], {**MANY, "compare_with": "best"}, {}, id="from the best"),
    pytest.param([0.7, 0.6, 0.5], MANY, {}, id="a slow decline"),
    pytest.param([0.9, 0.1], {**MANY, **TREE}, {}, id="under a tree of conditions"),
    pytest.param([0.9, 0.1], {**MANY, "pattern": "improvement"}, {}, id="improvement"),
    pytest.param([0.5, 0.5], {"max_iterations": 9}, {}, id="no gain"),
    pytest.param([0.9, 0.1], {"max_iterations": 2}, {}, id="the last iteration"),
    pytest.param([0.9, 0.1], {**MANY, "escalate_below": 0.3}, {}, id="a low score"),
    pytest.param([0.9, 0.1], {**MANY, "min_iterations": 5}, {}, id="more were wanted"),
    pytest.param([0.9, 0.1], MANY, {"tool_loop": "broken"}, id="a loop of tool calls"),
    pytest.param([0.9, 0.1], MANY, {"escalation_asked": True}, id="a person wants to be asked"),
    pytest.param([0.9, 0.5], MANY, {"repeated": True}, id="an output that came back"),
]


@pytest.mark.parametrize(("scores", "settings", "more"), FALLS)
def test_a_pass_is_accepted(scores, settings, more) -> None:
    decision = decide(facts(scores, settings, deciding_passed=True, **more))
    assert (decision.outcome, decision.reason) == ("accepted", "quality_met")


@pytest.mark.parametrize(("scores", "settings", "more"), FALLS)
def test_without_a_pass_none_of_them_is(scores, settings, more) -> None:
    decision = decide(facts(scores, settings, **more))
    assert decision.outcome != "accepted"


HUNDRED = Rubric.model_validate(
    [{"name": "tests", "evaluator": {"check": "contains", "all": [f"w{n}" for n in range(100)]}}]
)


@pytest.mark.parametrize(
    ("shares", "ended"),
    [
        pytest.param([0.91, 0.95, 0.99], None, id="improving"),
        pytest.param([0.95, 0.91], "diminishing_returns", id="falling"),
        pytest.param([0.91, 0.95, 0.99, 1.0], "quality_met", id="all"),
        pytest.param([0.0, 0.5, 0.9], None, id="from nothing"),
        pytest.param([0.99, 0.99], "diminishing_returns", id="the same"),
        pytest.param([0.31, 0.61, 0.91], None, id="past the caps of a judge"),
    ],
)
def test_a_check_that_passes_more_and_more_is_seen_to_improve(
    shares: list[float], ended: str | None
) -> None:
    """Each of them has an unmet check, and its score is its share all the same."""
    settings = {"quality_threshold": 1.0, "improvement_threshold": 0.01, "max_iterations": 9}
    seen = [_measured(share) for share in shares]
    assert seen == shares
    assert decide(facts(seen, settings)).reason == ended


def _measured(share: float) -> float:
    unmet = Finding(id="F1", severity="important", dimension="tests", title="some are missing")
    found = (unmet,) if share < 1 else ()
    score = DimensionScore(name="tests", score=share, source="check", gap="some", findings=found)
    measured = overall_score(HUNDRED, Evaluation(dimensions=(score,)))
    assert measured is not None
    return measured
