"""Single checks: scores at the borders, what is found, what is missing, how to fix it."""

import json
import time
from collections.abc import Mapping
from functools import partial

import pytest
from pydantic import JsonValue

from perdure.adapters.bounded_process import process
from perdure.adapters.checks import CheckFailed, run_check
from perdure.adapters.checks.builtin_checks import length_of
from perdure.adapters.checks.rubric import schema_problem
from perdure.adapters.checks.schemas import SHOWN_CHARACTERS, schema_errors
from perdure.domain.evaluation.checks import (
    BuiltInCheck,
    ContainsCheck,
    EqualsCheck,
    JsonSchemaCheck,
    LengthCheck,
    RegexCheck,
)


def contains(**given: object) -> ContainsCheck:
    return ContainsCheck.model_validate({"check": "contains", **given})


def regex(pattern: str, count: int = 1) -> RegexCheck:
    return RegexCheck(check="regex", pattern=pattern, count=count)


def length(unit: str, minimum: int | None = None, maximum: int | None = None) -> LengthCheck:
    return LengthCheck.model_validate(
        {"check": "length", "unit": unit, "min": minimum, "max": maximum}
    )


def schema(**given: object) -> JsonSchemaCheck:
    return JsonSchemaCheck.model_validate({"check": "json_schema", "schema": given})


def equals(value: object) -> EqualsCheck:
    return EqualsCheck.model_validate({"check": "equals", "value": value})


@pytest.mark.parametrize(
    ("check", "text", "score", "detail"),
    [
        pytest.param(contains(all=["Steel"]), "stEEl", 1.0, "", id="case is ignored"),
        pytest.param(contains(all=["straße"]), "STRASSE", 1.0, "", id="folded"),
        pytest.param(
            contains(all=["Steel"], ignore_case=False), "steel", 0.0, "missing: Steel", id="case"
        ),
        pytest.param(
            contains(all=["steel", "dishwasher", "cold"]),
            "cold",
            1 / 3,
            "missing: steel, dishwasher",
            id="share of the terms",
        ),
        pytest.param(contains(any=["a", "b"]), "b", 1.0, "", id="any"),
        pytest.param(contains(any=["a", "b"]), "c", 0.0, "missing one of: a, b", id="none of any"),
        pytest.param(contains(none=["best"]), "good", 1.0, "", id="none"),
        pytest.param(
            contains(all=["x"], any=["y", "z"], none=["best", "top"]),
            "x best",
            0.5,
            "missing one of: y, z; not wanted: best",
            id="any is one demand",
        ),
        pytest.param(regex(r"^Name: \w"), "Name: x", 1.0, "", id="pattern"),
        pytest.param(regex(r"\d", 3), "1 2", 0.0, r"2 matches of \d, wanted 3", id="too few"),
        pytest.param(regex(r"\d", 0), "none", 1.0, "", id="none wanted"),
        pytest.param(
            regex(r"\d", 0), "1", 0.0, r"1 matches of \d, none allowed", id="one too many"
        ),
        pytest.param(regex(r"é$"), "café", 1.0, "", id="beyond ASCII"),
        pytest.param(regex("a"), "\ud800 a", 1.0, "", id="a lone surrogate"),
        pytest.param(length("words", 2, 3), "a b c", 1.0, "", id="at the limit"),
        pytest.param(length("words", None, 9), "a " * 14, 0.0, "14 words, limit 9", id="too long"),
        pytest.param(length("words", 2), "a", 0.0, "1 word, at least 2 wanted", id="too short"),
        pytest.param(length("chars", None, 0), "", 1.0, "", id="nothing is allowed"),
        pytest.param(schema(type="object", required=["a"]), '{"a": 1}', 1.0, "", id="schema"),
        pytest.param(
            schema(type="object", required=["a"]),
            "{}",
            0.0,
            "$: 'a' is a required property",
            id="schema broken",
        ),
        pytest.param(
            schema(properties={"a": {"type": "array", "items": {"type": "integer"}}}),
            '{"a": [1, "x"]}',
            0.0,
            "$.a[1]: 'x' is not of type 'integer'",
            id="path into the value",
        ),
        pytest.param(equals("yes"), " yes\n", 1.0, "", id="equal text"),
        pytest.param(equals("yes"), "no", 0.0, "found no, wanted yes", id="other text"),
        pytest.param(equals({"a": 1, "b": 2}), '{"b": 2, "a": 1}', 1.0, "", id="equal JSON"),
        pytest.param(equals(1), "true", 0.0, "found true, wanted 1", id="true is not 1"),
        pytest.param(equals([1]), "nope", 0.0, "found nope, wanted [1]", id="no JSON"),
    ],
)
def test_checks(check: BuiltInCheck, text: str, score: float, detail: str) -> None:
    result = run_check(check, text)
    assert result.score == pytest.approx(score)
    assert result.detail == detail
    assert bool(result.fix) is (score < 1.0)
    assert result.passed is (score == 1.0)


@pytest.mark.parametrize(
    "text", ["not json", "NaN", "1e999", "[" * 100_000], ids=["text", "nan", "huge", "deep"]
)
def test_what_is_no_json_scores_0(text: str) -> None:
    result = run_check(schema(), text)
    assert result.score == 0.0
    assert result.detail.startswith("not JSON: ")


def test_a_schema_error_quotes_both_ends_of_a_long_value() -> None:
    key = "k" * 5_000
    check = schema(additionalProperties={"maxLength": 9})
    result = run_check(check, json.dumps({key: f"begun {'word ' * 8_000}ended"}))
    path, message = result.detail.split(": ", 1)
    assert (len(path), len(message)) == (SHOWN_CHARACTERS, SHOWN_CHARACTERS)
    assert message.startswith("'begun word")
    assert message.endswith("word ended' is too long")
    assert len(result.fix) < 3 * SHOWN_CHARACTERS


@pytest.mark.parametrize(
    ("text", "unit", "found"),
    [
        ("a – b, don't", "words", 3),
        ("one\n\n two \n", "lines", 2),
        ("It is 3.5 m. Really?! Yes", "sentences", 3),
        ('He said "no." Then left…', "sentences", 2),
        ("一。二！", "sentences", 2),
        ("", "sentences", 0),
        ("é", "chars", 1),
    ],
)
def test_lengths(text: str, unit: str, found: int) -> None:
    assert length_of(text, unit) == found  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("allowed", "value", "score"),
    [
        pytest.param({"pattern": "^a+$"}, '"aaa"', 1.0, id="pattern"),
        pytest.param({"pattern": "^a+$"}, '"b"', 0.0, id="pattern broken"),
        pytest.param({"pattern": r"^\p{L}+\z"}, '"é"', 1.0, id="pattern of RE2 alone"),
        pytest.param(
            {"patternProperties": {"^x": {"type": "integer"}}}, '{"x1": 1}', 1.0, id="keys"
        ),
        pytest.param(
            {"patternProperties": {"^x": {"type": "integer"}}}, '{"x1": ""}', 0.0, id="bad"
        ),
        pytest.param({"patternProperties": {"^x": True}}, '{"x1": ""}', 1.0, id="any value"),
        pytest.param({"patternProperties": {"^x": False}}, '{"x1": ""}', 0.0, id="no value"),
        pytest.param(
            {"patternProperties": {"^x": {}}, "additionalProperties": False},
            '{"y": 1}',
            0.0,
            id="y",
        ),
        pytest.param(
            {"properties": {"y": {}}, "additionalProperties": False}, '{"y": 1}', 1.0, id="named"
        ),
        pytest.param({"additionalProperties": {"type": "string"}}, '{"y": 1}', 0.0, id="typed"),
        pytest.param(
            {"$defs": {"a": {"pattern": "^a"}}, "$ref": "#/$defs/a"}, '"b"', 0.0, id="reference"
        ),
        pytest.param(
            {"properties": {"pattern": False, "unevaluatedProperties": {"const": 1}}},
            '{"unevaluatedProperties": 1}',
            1.0,
            id="properties named like keywords",
        ),
        pytest.param(
            {"enum": [{"pattern": "(?=a)", "$dynamicRef": 1}]},
            '{"pattern": "(?=a)", "$dynamicRef": 1}',
            1.0,
            id="values with fields named like keywords",
        ),
    ],
)
def test_schema_keywords_that_hold_patterns(
    allowed: Mapping[str, object], value: str, score: float
) -> None:
    assert run_check(schema(**allowed), value).score == score


@pytest.mark.parametrize(
    ("check", "said"),
    [
        pytest.param(regex("(?=a)b"), "RE2 syntax", id="look-around"),
        pytest.param(regex("(a"), "cannot be used", id="broken pattern"),
        pytest.param(schema(pattern="(?=a)"), "RE2 syntax", id="pattern in a schema"),
        pytest.param(schema(type="nonsense"), "not valid", id="broken schema"),
        pytest.param(schema(unevaluatedProperties=False), "do not support", id="unevaluated"),
        pytest.param(
            schema(properties={"a": {"unevaluatedProperties": 1}}), "do not support", id="below"
        ),
        pytest.param(
            schema(examples=[{"unevaluatedProperties": False}], **{"$ref": "#/examples/0"}),
            "do not support",
            id="unevaluated in data",
        ),
        pytest.param(
            schema(default={"pattern": "(?=a)"}, **{"$ref": "#/default"}),
            "RE2 syntax",
            id="pattern in data",
        ),
        pytest.param(schema(**{"$ref": "http://localhost/x"}), "$ref", id="remote reference"),
        pytest.param(schema(**{"$ref": "#"}), "without end", id="circle"),
    ],
)
def test_a_check_that_cannot_run_is_no_score(check: BuiltInCheck, said: str) -> None:
    with pytest.raises(CheckFailed) as raised:
        run_check(check, '"x"')
    assert said in str(raised.value)


def test_a_schema_that_the_library_cannot_apply_to_a_value_is_no_score() -> None:
    with pytest.raises(CheckFailed, match="cannot be applied: OverflowError"):
        schema_errors({"multipleOf": 0.5}, 10**400)


def branch(name: str) -> JsonValue:
    return {"properties": {"a": {"$ref": "#/$defs/tree"}}, "required": ["a", name]}


BRANCHING = {
    "$defs": {"tree": {"anyOf": [branch("x"), branch("y"), {"type": "null"}]}},
    "$ref": "#/$defs/tree",
}


def test_a_schema_that_does_not_end_on_a_text_is_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "work_now", partial(process.work_now, seconds=2.0))
    text = '{"a": ' * 60 + "1" + "}" * 60
    with pytest.raises(CheckFailed, match="cannot be checked: it took more than 2 s"):
        run_check(schema(**BRANCHING), text)


NESTED = {"$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}, "$ref": "#/$defs/tree"}
BELOW = {"properties": {"a": {"$ref": "#/definitions/b"}}, "definitions": {"b": {"type": "null"}}}
ANCHOR = {"items": {"$ref": "#here"}, "$defs": {"a": {"$anchor": "here", "type": "null"}}}
NAMED = {"allOf": [{"$id": "http://a/b", "$ref": "#/$defs/c", "$defs": {"c": {"type": "null"}}}]}
CHAIN = {
    "$ref": "#/$defs/a0",
    "$defs": {f"a{n}": {"$ref": f"#/$defs/a{n + 1}"} for n in range(400)} | {"a400": {}},
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param(NESTED, "", id="a circle through items"),
        pytest.param(BELOW, "", id="the old word for definitions"),
        pytest.param(ANCHOR, "", id="an anchor"),
        pytest.param(NAMED, "", id="a part with a name"),
        pytest.param(CHAIN, "", id="a long way"),
        pytest.param({"$ref": "#/$defs/no"}, '$ref "#/$defs/no" names nothing', id="nowhere"),
        pytest.param({"items": {"$ref": "http://localhost/x"}}, "names nothing", id="elsewhere"),
        pytest.param({"$defs": {"a": {"$ref": "#b"}}}, "names nothing", id="no such anchor"),
        pytest.param({"anyOf": [{"type": "null"}, {"$ref": "#"}]}, "without end", id="in place"),
        pytest.param({"$defs": {"b": {"not": {"$ref": "#/$defs/b"}}}}, "without end", id="below"),
        pytest.param({"dependentSchemas": {"a": {"$ref": "#"}}}, "without end", id="at a name"),
        pytest.param({"dependentSchemas": {"a": {"items": {"$ref": "#"}}}}, "", id="below a name"),
    ],
)
def test_references_are_followed_before_anything_is_checked(
    given: dict[str, JsonValue], said: str
) -> None:
    assert said in (told := schema_problem(given))
    assert bool(told) == bool(said)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(regex("(a+)+$"), id="pattern"),
        pytest.param(schema(pattern="^(a+)+$"), id="schema"),
        pytest.param(schema(patternProperties={"^(a+)+$": {}}), id="keys"),
    ],
)
def test_a_catastrophic_pattern_ends_at_once(check: BuiltInCheck) -> None:
    hostile = "a" * 5_000 + "!"
    text = f'{{"{hostile}": 1}}' if isinstance(check, JsonSchemaCheck) else hostile
    before = time.process_time()
    run_check(check, text)
    assert time.process_time() - before < 1.0
