"""All checks of a rubric on one output, by part."""

from perdure.adapters.checks import check_problems, evaluate_checks
from perdure.domain.evaluation import Evaluation, overall_score
from perdure.domain.rubric import Rubric

RUBRIC = Rubric.model_validate(
    [
        {
            "name": "words",
            "part": 1,
            "evaluator": {"check": "contains", "all": ["steel", "dishwasher"]},
        },
        {
            "name": "short",
            "part": 2,
            "description": "brief",
            "evaluator": {"check": "length", "unit": "words", "max": 9},
        },
        {"name": "tone", "evaluator": {"judge": {}}},
        {
            "name": "lines",
            "weight": 0,
            "hint": "Write two lines.",
            "evaluator": {"check": "length", "unit": "lines", "max": 1},
        },
    ]
)


def test_findings_name_part_defect_and_fix() -> None:
    found = evaluate_checks(RUBRIC, "plain steel\n" + "a " * 14)
    assert [(item.name, item.score, item.gap) for item in found] == [
        ("words", 0.5, "line 1: missing: dishwasher"),
        ("short", 0.0, "line 2: 14 words, limit 9"),
        ("lines", 0.0, "2 lines, limit 1"),
    ]
    words, short, lines = (item.findings[0] for item in found)
    assert (words.id, words.severity, words.part, words.location, words.fix) == (
        "check:words",
        "important",
        1,
        "line 1",
        "Use dishwasher.",
    )
    assert (short.title, short.detail) == ("line 2: 14 words, limit 9", "brief")
    assert (lines.severity, lines.part, lines.fix) == ("suggestion", None, "Write two lines.")


def test_a_missing_line_is_said_to_be_missing() -> None:
    words = evaluate_checks(RUBRIC, "")[0]
    assert (words.score, words.gap) == (0.0, "line 1: the line is missing")


def test_what_passes_has_no_finding() -> None:
    found = evaluate_checks(RUBRIC, "steel, dishwasher")
    assert [item.score for item in found] == [1.0, 1.0, 1.0]
    assert not Evaluation(dimensions=found).findings


def test_a_check_that_cannot_run_leaves_the_output_unscored() -> None:
    rubric = Rubric.model_validate(
        [{"name": "shape", "evaluator": {"check": "json_schema", "schema": {"$ref": "#/nowhere"}}}]
    )
    (found,) = evaluate_checks(rubric, "{}")
    assert found.score is None
    assert found.gap.startswith("could not be checked: ")
    assert overall_score(rubric, Evaluation(dimensions=(found,))) is None


def test_unusable_patterns_and_schemas_are_found_before_a_run() -> None:
    rubric = Rubric.model_validate(
        [
            {"name": "a", "evaluator": {"check": "regex", "pattern": "(?=a)"}},
            {"name": "b", "evaluator": {"check": "regex", "pattern": "a"}},
            {"name": "c", "evaluator": {"check": "json_schema", "schema": {"type": "nonsense"}}},
        ]
    )
    problems = check_problems(rubric)
    assert [problem.path for problem in problems] == ["rubric[0].evaluator", "rubric[2].evaluator"]
    assert "look-around" in problems[0].allowed
    assert check_problems(RUBRIC) == ()
