"""The decision table: every row, their order, patterns, custom trees, and that loops end."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.check_termination import TerminationFacts
from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.evaluation.trajectory import Trajectory
from perdure.domain.refine.spec import RefineSettings
from perdure.domain.refine.stop_rules import Decision, Facts, Failure, decide

FAILED = Failure("model_error", "the provider is away")
BLANK = Failure("no_output", "the executor gave no text")
OVERFLOW = Failure("model_error", "the context is full", heals=True)


def facts(
    *scores: float | None, settings: Mapping[str, object] | None = None, **more: object
) -> Facts:
    trajectory = Trajectory()
    for score in scores:
        trajectory = trajectory.after(score)
    loop = {key: more.pop(key) for key in ("repeated", "active_seconds") if key in more}
    return Facts(
        loop=TerminationFacts(trajectory=trajectory, **loop),  # type: ignore[arg-type]
        settings=RefineSettings.model_validate(settings or {}),
        **more,  # type: ignore[arg-type]
    )


def short(decision: Decision) -> str:
    return "/".join(filter(None, (decision.decision, decision.reason)))


FIVE = {"max_iterations": 5}
IMPROVE = {"pattern": "improvement", "max_iterations": 5}
LIST = {"pattern": "checklist", "max_iterations": 5}
LOW = {"max_iterations": 5, "escalate_below": 0.3}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(0.9, exhausted="cost"), "abort_budget/cost", id="1 beats accept"),
        pytest.param(
            facts(0.9, exhausted="tokens", out_of_time="wall_time"), "abort_budget/tokens", id="1>2"
        ),
        pytest.param(facts(0.9, out_of_time="active_time"), "abort_timeout/active_time", id="2"),
        pytest.param(facts(1.0, 0.79), "abort_regression/regression", id="3"),
        pytest.param(
            facts(0.95, 0.6, deciding_passed=True), "accept/quality_met", id="3 a pass beats a fall"
        ),
        pytest.param(
            facts(0.95, 0.6, deciding_passed=True, out_of_time="wall_time"),
            "abort_timeout/wall_time",
            id="2>3",
        ),
        pytest.param(facts(1.0, 0.8, settings=FIVE), "accept/quality_met", id="3 not at 0.2"),
        pytest.param(
            facts(1.0, 0.79, settings={**FIVE, "abort_on_regression": False}),
            "accept_best/diminishing_returns",
            id="3 off",
        ),
        pytest.param(facts(0.8), "accept/quality_met", id="4 at the threshold"),
        pytest.param(facts(0.79999), "continue", id="4 just below"),
        pytest.param(facts(0.9, settings={"min_iterations": 2}), "continue", id="4 too early"),
        pytest.param(
            facts(0.1, deciding_passed=True, settings={"min_iterations": 2}),
            "accept/quality_met",
            id="4 deciding, whatever score or minimum",
        ),
        pytest.param(
            facts(0.5, None, deciding_passed=True), "continue", id="4 an unscored one never accepts"
        ),
        pytest.param(facts(0.9, escalation_asked=True), "accept/quality_met", id="4>5"),
        pytest.param(facts(0.1, 0.2, 0.3, escalation_asked=True), "escalate", id="5>6"),
        pytest.param(facts(0.1, 0.2, 0.3), "accept_best/max_iterations", id="6"),
        pytest.param(
            facts(0.1, settings={"max_iterations": 1, "escalate_below": 0.3}),
            "accept_best/max_iterations",
            id="6>7",
        ),
        pytest.param(facts(0.29, settings=LOW), "escalate", id="7 low"),
        pytest.param(facts(0.3, settings=LOW), "continue", id="7 not low"),
        pytest.param(facts(0.5, tool_loop="critical"), "escalate", id="7 tool loop"),
        pytest.param(facts(0.5, tool_loop="broken"), "abort_tool_loop/tool_loop", id="broken"),
        pytest.param(facts(0.9, tool_loop="broken"), "accept/quality_met", id="4>broken"),
        pytest.param(facts(0.5, 0.6, repeated=True), "accept_best/repeated_output", id="8"),
        pytest.param(
            facts(0.5, 0.5, repeated=True, settings=FIVE), "accept_best/repeated_output", id="8>10"
        ),
        pytest.param(
            facts(0.7, 0.6, 0.5, settings={**FIVE, "improvement_threshold": None}),
            "abort_regression/degradation",
            id="9",
        ),
        pytest.param(facts(0.5, 0.54), "accept_best/diminishing_returns", id="10"),
        pytest.param(facts(0.5, 0.55), "continue", id="10 at the threshold"),
        pytest.param(facts(0.5, None), "continue", id="10 not when unscored"),
        pytest.param(
            facts(0.5, 0.5, settings={**FIVE, "min_iterations": 3}), "continue", id="10 too early"
        ),
        pytest.param(
            facts(0.5, 0.5, settings={"improvement_threshold": None}), "continue", id="10 off"
        ),
        pytest.param(facts(0.5), "continue", id="11"),
    ],
)
def test_rows(given: Facts, expected: str) -> None:
    assert short(decide(given)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(None, failure=FAILED), "abort_error/model_error", id="first"),
        pytest.param(
            facts(None, failure=FAILED, exhausted="cost"), "abort_budget/cost", id="budget first"
        ),
        pytest.param(facts(None, failure=OVERFLOW), "continue", id="first, heals"),
        pytest.param(
            facts(None, None, failure=OVERFLOW, failures_in_a_row=2),
            "abort_error/model_error",
            id="healed not",
        ),
        pytest.param(facts(0.5, None, failure=FAILED, failures_in_a_row=1), "continue", id="one"),
        pytest.param(
            facts(0.5, None, None, failure=FAILED, failures_in_a_row=2, settings=FIVE),
            "abort_error/model_error",
            id="two in a row",
        ),
        pytest.param(
            facts(0.5, None, None, failure=FAILED, failures_in_a_row=2),
            "accept_best/max_iterations",
            id="a limit in the same iteration gives the reason",
        ),
        pytest.param(
            facts(None, failure=Failure("evaluator_failed", "unreadable"), failures_in_a_row=1),
            "abort_error/evaluator_failed",
            id="evaluator",
        ),
    ],
)
def test_failures(given: Facts, expected: str) -> None:
    assert short(decide(given)) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(0.99, settings=IMPROVE), "continue", id="improvement: no threshold"),
        pytest.param(
            facts(0.9, settings={**IMPROVE, "quality_threshold": 0.8}),
            "accept/quality_met",
            id="improvement: threshold given",
        ),
        pytest.param(facts(0.5, 0.51, settings=IMPROVE), "continue", id="improvement: any gain"),
        pytest.param(
            facts(1.0, settings=IMPROVE), "accept/quality_met", id="improvement: nothing is left"
        ),
        pytest.param(
            facts(1.0, settings={**IMPROVE, "min_iterations": 2}), "continue", id="unless asked"
        ),
        pytest.param(
            facts(None, failure=BLANK), "abort_error/no_output", id="a blank draft is no output"
        ),
        pytest.param(
            facts(0.5, 0.5, settings=IMPROVE), "accept_best/plateau", id="improvement: a tie"
        ),
        pytest.param(
            facts(0.5, 0.4, 0.45, settings=IMPROVE), "accept_best/plateau", id="improvement: best"
        ),
        pytest.param(facts(0.99, settings=LIST), "continue", id="checklist: score means nothing"),
        pytest.param(
            facts(0.9, items_passed=True, settings=LIST), "accept/all_items_pass", id="checklist"
        ),
        pytest.param(
            facts(0.5, items_passed=True, settings={**LIST, "min_iterations": 2}),
            "continue",
            id="checklist: too early",
        ),
        pytest.param(facts(0.9, 0.1, settings=LIST), "continue", id="checklist: 3 and 10 off"),
        pytest.param(facts(0.5, 0.4, 0.3, settings=LIST), "continue", id="checklist: 9 off"),
        pytest.param(
            facts(0.5, 0.5, repeated=True, settings=LIST),
            "accept_best/repeated_output",
            id="checklist: 8 on",
        ),
        pytest.param(
            facts(0.5, deciding_passed=True, settings=LIST), "continue", id="checklist: all items"
        ),
    ],
)
def test_patterns(given: Facts, expected: str) -> None:
    assert short(decide(given)) == expected


TRIES = {"pattern": "strategies", "strategies": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(0.8, settings=TRIES), "accept/strategy_succeeded", id="4 by score"),
        pytest.param(facts(0.79, settings=TRIES), "continue", id="4 just below"),
        pytest.param(
            facts(0.1, deciding_passed=True, settings=TRIES),
            "accept/strategy_succeeded",
            id="4 by deciding checks",
        ),
        pytest.param(facts(0.9, exhausted="cost", settings=TRIES), "abort_budget/cost", id="1 on"),
        pytest.param(
            facts(0.9, out_of_time="active_time", settings=TRIES),
            "abort_timeout/active_time",
            id="2 on",
        ),
        pytest.param(facts(0.7, 0.1, settings=TRIES), "continue", id="3 off"),
        pytest.param(facts(0.1, escalation_asked=True, settings=TRIES), "escalate", id="5 on"),
        pytest.param(facts(0.1, 0.2, 0.3, settings=TRIES), "accept_best/max_iterations", id="6 on"),
        pytest.param(
            facts(0.1, 0.2, 0.3, settings={**TRIES, "max_iterations": 4}), "continue", id="6 given"
        ),
        pytest.param(facts(0.1, settings={**TRIES, "escalate_below": 0.3}), "escalate", id="7 on"),
        pytest.param(facts(0.5, 0.5, repeated=True, settings=TRIES), "continue", id="8 off"),
        pytest.param(
            facts(0.7, 0.6, 0.5, settings={**TRIES, "max_iterations": 9}), "continue", id="9 off"
        ),
        pytest.param(facts(0.5, 0.5, settings=TRIES), "continue", id="10 off"),
        pytest.param(
            facts(None, failure=FAILED, failures_in_a_row=1, settings=TRIES),
            "continue",
            id="the first fails",
        ),
        pytest.param(
            facts(None, None, failure=FAILED, failures_in_a_row=2, settings=TRIES),
            "continue",
            id="two in a row fail",
        ),
        pytest.param(
            facts(0.2, None, None, failure=FAILED, failures_in_a_row=2, settings=TRIES),
            "accept_best/max_iterations",
            id="the best attempt is left",
        ),
        pytest.param(
            facts(0.5, tool_loop="broken", settings=TRIES), "continue", id="a broken loop fails"
        ),
        pytest.param(
            facts(0.9, settings={**TRIES, "termination": {"type": "confidence", "threshold": 0.9}}),
            "accept/quality_met",
            id="a tree gives its own reason",
        ),
    ],
)
def test_strategies(given: Facts, expected: str) -> None:
    assert short(decide(given)) == expected


def test_strategies_that_all_fail_leave_the_last_failure() -> None:
    trajectory = Trajectory()
    for _ in range(3):
        trajectory = trajectory.after(None, has_output=False)
    given = Facts(
        loop=TerminationFacts(trajectory=trajectory),
        settings=RefineSettings.model_validate(TRIES),
        failure=FAILED,
        failures_in_a_row=3,
    )
    assert short(decide(given)) == "abort_error/model_error"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            facts(0.5, 0.5, failing_parts=1, repeated=True, settings=FIVE),
            "continue",
            id="one round without gain",
        ),
        pytest.param(
            facts(0.5, 0.5, 0.5, failing_parts=1, repeated=True, settings=FIVE),
            "accept_best/diminishing_returns",
            id="patience is out",
        ),
        pytest.param(
            facts(0.5, 0.5, 0.51, failing_parts=1, settings=FIVE), "continue", id="a small gain"
        ),
        pytest.param(
            facts(0.5, 0.5, repeated=True, settings=FIVE),
            "accept_best/repeated_output",
            id="no failing part left",
        ),
    ],
)
def test_parts_get_patience(given: Facts, expected: str) -> None:
    assert short(decide(given)) == expected


def tree(*conditions: Mapping[str, object], **more: object) -> Mapping[str, object]:
    combined = {"type": "combined", "operator": "or", "conditions": list(conditions)}
    return {"termination": combined, **more}


CONFIDENT = {"type": "confidence", "threshold": 0.9}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(facts(0.85, settings=tree(CONFIDENT)), "continue", id="replaces threshold"),
        pytest.param(facts(0.9, settings=tree(CONFIDENT)), "accept/quality_met", id="accepts"),
        pytest.param(
            facts(0.1, deciding_passed=True, settings=tree(CONFIDENT)),
            "accept/quality_met",
            id="deciding stays",
        ),
        pytest.param(
            facts(*[0.1] * 4, repeated=True, settings=tree(CONFIDENT)),
            "continue",
            id="6, 8, 10 off",
        ),
        pytest.param(
            facts(0.9, 0.5, settings=tree(CONFIDENT)), "abort_regression/regression", id="3"
        ),
        pytest.param(
            facts(0.9, escalation_asked=True, settings=tree(CONFIDENT)), "escalate", id="5 first"
        ),
        pytest.param(
            facts(0.2, settings=tree({"type": "max_iterations", "limit": 1}, escalate_below=0.3)),
            "accept_best/max_iterations",
            id="before the low score",
        ),
        pytest.param(facts(0.2, settings=tree(CONFIDENT, escalate_below=0.3)), "escalate", id="7"),
        pytest.param(
            facts(*[0.1] * 10, settings=tree(CONFIDENT)),
            "accept_best/max_iterations",
            id="hard limit of 10",
        ),
        pytest.param(
            facts(*[0.1] * 10, settings=tree(CONFIDENT, max_iterations=12)), "continue", id="of 12"
        ),
        pytest.param(
            facts(0.5, active_seconds=60.0, settings=tree({"type": "timeout", "seconds": 60})),
            "abort_timeout/active_time",
            id="timeout",
        ),
        pytest.param(
            facts(0.5, None, None, settings=tree({"type": "no_improvement", "patience": 2})),
            "accept_best/plateau",
            id="plateau",
        ),
        pytest.param(
            facts(0.5, 0.4, 0.3, settings=tree({"type": "degradation"})),
            "abort_regression/degradation",
            id="degradation",
        ),
    ],
)
def test_custom_trees(given: Facts, expected: str) -> None:
    assert short(decide(given)) == expected


@given(
    script=st.lists(st.none() | st.floats(0, 1), min_size=60, max_size=60),
    pattern=st.sampled_from(["confidence", "improvement", "checklist", "strategies"]),
    maximum=st.integers(1, 50),
    failing_parts=st.integers(0, 3),
    use_tree=st.booleans(),
)
def test_any_script_of_scores_ends_with_a_reason_and_the_best(
    script: list[float | None], pattern: str, maximum: int, failing_parts: int, use_tree: bool
) -> None:
    settings: Mapping[str, object] = {"pattern": pattern, "max_iterations": maximum}
    if pattern == "strategies":
        settings = {**settings, "strategies": ["a", "b"]}
    if use_tree:
        settings = {**settings, **tree(CONFIDENT)}
    count, limit = 1, RefineSettings.model_validate(settings).hard_limit
    given = facts(*script[:1], settings=settings, failing_parts=failing_parts)
    while not decide(given).ends and count < limit:
        count += 1
        given = facts(*script[:count], settings=settings, failing_parts=failing_parts)
    seen, decision = script[:count], decide(given)
    assert decision.ends
    assert decision.outcome is not None
    assert decision.reason in REASONS[decision.outcome]
    best = given.trajectory.best
    scored = [(round(score, 9), n) for n, score in enumerate(seen, 1) if score is not None]
    assert best is not None
    assert (best.score, best.iteration) == (max(scored) if scored else (None, len(seen)))
