"""All checks of a rubric on one output, by part."""

import errno
from collections.abc import Iterator
from typing import cast

import pytest

from perdure.adapters.checks import CheckResult, RubricChecks, check_problems, evaluate_checks
from perdure.adapters.sandbox.python_sandbox import SnippetRunner
from perdure.domain.evaluation.rubric import Rubric
from perdure.domain.evaluation.scores import Evaluation, overall_score
from perdure.domain.foundation.errors import StoreAway
from perdure.extending.check_decorator import custom_check

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
    assert [problem.path for problem in problems] == [
        "rubric[0].evaluator.pattern",
        "rubric[2].evaluator.schema",
    ]
    assert "look-around" in problems[0].allowed
    assert check_problems(RUBRIC) == ()


@pytest.mark.parametrize(
    ("names", "paths"),
    [
        pytest.param(["Tone", "depth", "tone"], ["rubric[2].name"], id="case"),
        pytest.param(["Maß", "MASS"], ["rubric[1].name"], id="a letter that folds to two"),
        pytest.param(["tone", "tone "], ["rubric[1].name"], id="a blank more"),
        pytest.param([" tone "], ["rubric[0].name"], id="blanks around it"),
        pytest.param(["tone", "tone of voice"], [], id="one within the other"),
    ],
)
def test_names_that_nobody_can_tell_apart_are_found_before_a_run(
    names: list[str], paths: list[str]
) -> None:
    rubric = Rubric.model_validate([{"name": one, "evaluator": {"judge": {}}} for one in names])
    assert [problem.path for problem in check_problems(rubric)] == paths


def test_half_an_emoji_in_a_key_can_be_stored() -> None:
    evaluator = {"check": "equals", "value": "steel"}
    rubric = Rubric.model_validate([{"name": "a", "part": "title", "evaluator": evaluator}])
    (found,) = evaluate_checks(rubric, '{"title": "steel \\ud83d"}', "json_keys")
    assert "found steel ?" in found.gap
    assert "steel ?" in found.model_dump_json()


def sized(output: str, most: int, *, unit: str = "words") -> object:
    match unit:
        case "words":
            return CheckResult(0.4, "too many words", "Cut.") if len(output.split()) > most else 1
        case "broken":
            raise KeyError(unit)
        case "half":
            return CheckResult(0.4, "half \ud83d", "mend \ud83d")
        case "no fix":
            return CheckResult(0.4, cast(str, ["too long"]), cast(str, None))
        case "no words":
            return CheckResult(1.0, cast(str, None), cast(str, None))
        case _:
            return "no score"


@pytest.fixture(scope="module")
def checks() -> Iterator[RubricChecks]:
    snippets = SnippetRunner()
    plugins = {"acme.size": custom_check(sized, name="acme.size")}
    yield RubricChecks(snippets=snippets, plugins=plugins)
    snippets.close()


def python(code: str) -> dict[str, object]:
    return {"check": "python", "code": code}


def plugin(**parameters: object) -> dict[str, object]:
    return {"check": "acme.size", **parameters}


@pytest.mark.parametrize(
    ("evaluator", "score", "gap"),
    [
        pytest.param(python("True"), 1.0, "", id="true"),
        pytest.param(python("len(output) > 99"), 0.0, "the check is not met", id="false"),
        pytest.param(python("0.25"), 0.25, "score 0.25", id="a score"),
        pytest.param(python("(0.5, 'one of two')"), 0.5, "one of two", id="score and words"),
        pytest.param(python("1 / 0"), 0.0, "ZeroDivisionError", id="an error is a defect"),
        pytest.param(python("2"), None, "no score", id="above one"),
        pytest.param(python("-0.1"), None, "no score", id="below zero"),
        pytest.param(python("float('nan')"), None, "no score", id="not a number"),
        pytest.param(python("float('inf')"), None, "no score", id="infinite"),
        pytest.param(python("None"), None, "None, which is no score", id="nothing"),
        pytest.param(python("'1.0'"), None, "no score", id="a text"),
        pytest.param(python("10 ** 400"), None, "no score", id="a huge number"),
        pytest.param(python("10 ** 5000"), None, "a huge int", id="one that Python does not write"),
        pytest.param(plugin(most=9), 1.0, "", id="plugin passes"),
        pytest.param(plugin(most=1), 0.4, "too many words", id="plugin finds"),
        pytest.param(plugin(most=1, unit="broken"), None, "KeyError", id="plugin fails"),
        pytest.param(plugin(most=1, unit="?"), None, "no score", id="plugin says nonsense"),
        pytest.param(plugin(most=1, unit="half"), 0.4, "half ?", id="half an emoji"),
        pytest.param(plugin(most=1, unit="no fix"), 0.4, "['too long']", id="words are no text"),
        pytest.param(plugin(most=1, unit="no words"), 1.0, "", id="no words"),
        pytest.param(plugin(), None, "most: found nothing", id="parameter missing"),
        pytest.param(plugin(most="x"), None, 'most: found "x"', id="parameter of another type"),
        pytest.param(plugin(most=1, mots=2), None, "mots", id="parameter unknown"),
        pytest.param({"check": "acme.other"}, None, "is installed on this worker", id="unknown"),
    ],
)
def test_python_and_plugins(
    checks: RubricChecks, evaluator: dict[str, object], score: float | None, gap: str
) -> None:
    rubric = Rubric.model_validate([{"name": "a", "evaluator": evaluator}])
    (found,) = checks.evaluate(rubric, "two words")
    assert found.score == score
    assert gap in found.gap
    assert found.model_dump_json()
    assert bool(found.findings) == (score is not None and score < 1)


def test_python_sees_the_line_it_is_bound_to(checks: RubricChecks) -> None:
    rubric = Rubric.model_validate(
        [{"name": "a", "part": 2, "evaluator": python("output == 'second'")}]
    )
    assert checks.evaluate(rubric, "first\nsecond")[0].score == 1.0
    assert checks.evaluate(rubric, "second\nfirst")[0].gap.startswith("line 2: ")


def test_python_is_not_run_where_nothing_can_run_it() -> None:
    rubric = Rubric.model_validate([{"name": "a", "evaluator": python("True")}])
    (found,) = evaluate_checks(rubric, "x")
    assert found.score is None


def test_a_full_disk_under_a_check_of_a_plugin_says_nothing_of_the_output() -> None:
    """The step waits for room, as it does for programs; any other fault is one of the check."""
    faults = [OSError(errno.ENOSPC, "No space left on device"), OSError(errno.EIO, "bad disk")]

    def kept(output: str) -> bool:
        raise faults.pop(0)

    checks = RubricChecks(plugins={"acme.kept": custom_check(kept, name="acme.kept")})
    rubric = Rubric.model_validate([{"name": "kept", "evaluator": {"check": "acme.kept"}}])
    with pytest.raises(StoreAway, match="No space left"):
        checks.evaluate(rubric, "text")
    (score,) = checks.evaluate(rubric, "text")
    assert score.score is None
    assert "bad disk" in score.gap
