"""Settings of the refine loop: defaults by pattern, and what is refused."""

from collections.abc import Mapping

import pytest
from pydantic import ValidationError

from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.foundation.problems import problems_of
from perdure.domain.refine.spec import OutputSettings, RefineSettings, settings_problems


@pytest.mark.parametrize(
    ("given", "threshold"),
    [
        ({}, 0.8),
        ({"pattern": "checklist"}, 0.8),
        ({"pattern": "improvement"}, None),
        ({"pattern": "improvement", "quality_threshold": 0.8}, 0.8),
        ({"quality_threshold": None}, None),
    ],
    ids=str,
)
def test_the_threshold_of_a_pattern_survives_every_round_trip(
    given: Mapping[str, object], threshold: float | None
) -> None:
    settings = RefineSettings.model_validate(given)
    assert settings.quality_threshold == threshold
    assert RefineSettings.model_validate(settings.model_dump()) == settings
    assert RefineSettings.model_validate(settings.model_dump(exclude_defaults=True)) == settings


@pytest.mark.parametrize(
    ("given", "path", "message"),
    [
        pytest.param(
            {"pattern": "strategies", "strategies": ["a", {"name": "a"}]},
            "refine.strategies",
            "more than once: a",
            id="a strategy twice",
        ),
        pytest.param({"strategies": [""]}, "refine.strategies[0]", "not empty", id="no name"),
        pytest.param({"max_iterations": 0}, "refine.max_iterations", "at least 1", id="none"),
        pytest.param({"max_iterations": 1001}, "refine.max_iterations", "1000", id="too many"),
        pytest.param({"min_iterations": 4}, "refine.min_iterations", "which is 3", id="minimum"),
        pytest.param(
            {"quality_threshold": 0}, "refine.quality_threshold", "more than 0", id="zero"
        ),
        pytest.param({"output": {"parts": "pages"}}, "refine.output.parts", "sections", id="parts"),
        pytest.param({"plan": "maybe"}, "refine.plan", "auto", id="switch"),
        pytest.param(
            {"termination": {"type": "max_iterations", "limit": 0}},
            "refine.termination.limit",
            "at least 1",
            id="tree",
        ),
        pytest.param(
            {"termination": {"type": "max_iterations", "limit": 2000}},
            "refine",
            "at most 1000",
            id="tree without end",
        ),
    ],
)
def test_refused(given: Mapping[str, object], path: str, message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        RefineSettings.model_validate(given)
    problems = problems_of(raised.value, given, root="refine")
    assert [problem.path for problem in problems] == [path]
    assert message in problems[0].allowed


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        pytest.param({}, 3, id="without strategies"),
        pytest.param({"strategies": ["a", "b"]}, 2, id="one each"),
        pytest.param({"strategies": list("abcde")}, 5, id="more than usual"),
        pytest.param({"strategies": list("abcde"), "max_iterations": 3}, 3, id="given"),
        pytest.param({"strategies": ["a", "b"], "max_iterations": 4}, 4, id="given, twice around"),
    ],
)
def test_each_strategy_is_tried_once_unless_a_limit_is_given(
    given: Mapping[str, object], limit: int
) -> None:
    settings = RefineSettings.model_validate({"pattern": "strategies", **given})
    assert settings.max_iterations == limit
    assert RefineSettings.model_validate_json(settings.model_dump_json()) == settings
    assert RefineSettings.model_validate(settings.model_dump(exclude_defaults=True)) == settings


REVIEW = {"type": "evaluation_bound", "criteria": "good"}
GOAL = {"type": "goal_bound", "max_iterations": 2}
NESTED = {"type": "combined", "operator": "or", "conditions": [GOAL, REVIEW]}


@pytest.mark.parametrize(
    ("tree", "judged", "paths"),
    [
        pytest.param(REVIEW, True, ["refine.termination"], id="no role approves"),
        pytest.param(GOAL, True, [], id="the judge knows the goal"),
        pytest.param(GOAL, False, ["refine.termination"], id="no judge"),
        pytest.param(
            NESTED,
            False,
            ["refine.termination.conditions[0]", "refine.termination.conditions[1]"],
            id="nested",
        ),
    ],
)
def test_conditions_that_this_loop_cannot_meet_are_refused(
    tree: Mapping[str, object], judged: bool, paths: list[str]
) -> None:
    evaluator = {"judge": {}} if judged else {"check": "length", "unit": "words", "max": 9}
    rubric = Rubric.model_validate([{"name": "a", "evaluator": evaluator}])
    settings = RefineSettings.model_validate({"termination": tree})
    assert [problem.path for problem in settings_problems(settings, rubric)] == paths


@pytest.mark.parametrize(
    ("given", "paths"),
    [
        pytest.param({"pattern": "strategies"}, ["refine.strategies"], id="none to try"),
        pytest.param({"strategies": ["a"]}, ["refine.strategies"], id="another pattern"),
        pytest.param(
            {"pattern": "strategies", "strategies": ["a"], "output": {"parts": "lines"}},
            ["refine.output.parts"],
            id="in parts",
        ),
        pytest.param({"pattern": "strategies", "strategies": ["a"]}, [], id="fits"),
    ],
)
def test_strategies_fit_the_pattern(given: Mapping[str, object], paths: list[str]) -> None:
    check = {"check": "length", "unit": "words", "max": 9}
    rubric = Rubric.model_validate([{"name": "short", "evaluator": check}])
    problems = settings_problems(RefineSettings.model_validate(given), rubric)
    assert [problem.path for problem in problems] == paths


def test_bare_words_that_yaml_reads_as_booleans() -> None:
    settings = RefineSettings.model_validate(
        {"plan": False, "classify": False, "output": {"show_draft": True}}
    )
    assert (settings.plan, settings.classify, settings.output.show_draft) == ("off", "off", "on")


@pytest.mark.parametrize(
    ("show", "small", "shows"),
    [("auto", True, False), ("auto", False, True), ("on", True, True), ("off", False, False)],
)
def test_the_draft_is_shown_to_large_models(show: str, small: bool, shows: bool) -> None:
    output = OutputSettings.model_validate({"show_draft": show})
    assert output.shows_draft(small_model=small) is shows


@pytest.mark.parametrize(
    ("kind", "part", "allowed"),
    [
        pytest.param("whole", 2, "no part", id="nothing is taken apart"),
        pytest.param("lines", "Risks", "number of a line", id="a heading of a line"),
        pytest.param("sections", 2, "heading, as text", id="a number of a section"),
        pytest.param("json_keys", 2, "key, as text", id="a number of a key"),
        pytest.param("lines", 2, None, id="a line"),
        pytest.param("sections", "2024", None, id="a heading that is a number"),
        pytest.param("json_keys", "skills", None, id="a key"),
    ],
)
def test_parts_fit_the_way_an_output_is_taken_apart(
    kind: str, part: int | str, allowed: str | None
) -> None:
    length = {"check": "length", "unit": "words", "max": 9}
    rubric = Rubric.model_validate([{"name": "short", "part": part, "evaluator": length}])
    settings = RefineSettings.model_validate({"output": {"parts": kind}})
    problems = settings_problems(settings, rubric)
    assert [one.path for one in problems] == (["rubric[0].part"] if allowed else [])
    assert all(allowed in one.allowed for one in problems if allowed)
