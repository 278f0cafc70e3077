"""A name given twice, or a number that is none, decides nothing wherever a model's JSON is read."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.evaluation.human_scores import BadScores, read_scores
from perdure.domain.evaluation.judge_reply import _parse
from perdure.domain.foundation import json_extraction
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.json_extraction import (
    MOST_LEVELS,
    NestedTooDeep,
    RefusedJson,
    RepeatedName,
    UnknownNumber,
    objects_in,
    read_json,
    value_of,
)
from perdure.domain.llm.structured_replies import BadReply
from perdure.domain.memory.learner_reply import read_learnings
from perdure.domain.refine.planning import read_plan
from perdure.domain.roles.stage_reply import find_embedded
from perdure.domain.run.loop_api import parameters_of
from perdure.domain.run.result import RunResult, with_value

TWICE = {
    "top": '{"score": 0.1, "score": 0.9}',
    "inside": '{"a": {"path": "x", "path": "y"}}',
    "in a list": '[{"n": 1}, {"n": 1, "n": 2}]',
    "spelled otherwise": '{"score": 1, "\\u0073core": 2}',
    "same value": '{"score": 1, "score": 1}',
}


@pytest.mark.parametrize("text", TWICE.values(), ids=TWICE)
def test_a_name_given_twice_is_refused(text: str) -> None:
    with pytest.raises(RepeatedName, match="is given twice in one object"):
        read_json(text)


NO_NUMBERS = {
    "not a number": "NaN",
    "infinite": "-Infinity",
    "beyond floats": "1e999",
    "beyond floats with a point": "-1.5E+400",
    "a whole one": "9" * 400,
    "one that Python does not read": "9" * 5000,
}


@pytest.mark.parametrize("number", NO_NUMBERS.values(), ids=NO_NUMBERS)
def test_a_number_that_is_none_is_refused_in_words(number: str) -> None:
    with pytest.raises(UnknownNumber, match="JSON does not know or that is too large"):
        read_json(f'{{"a": [{number}]}}')
    with pytest.raises(RefusedJson) as refused:
        read_json(f'{{"a": 1, "score": {number}}}')
    assert len(str(refused.value)) < 150
    found = objects_in(f'so {{"a": 1, "score": {number}}} and {{"b": 2}}')
    assert [one.fields for one in found] == [{"b": 2}]
    assert isinstance(find_embedded(f'{{"verdict": {number}}}', "verdict"), BadReply)
    assert isinstance(read_plan(f'{{"steps": [], "risks": [{number}]}}'), BadReply)


def nested(levels: int) -> str:
    return "[" * levels + "1" + "]" * levels


def test_json_is_read_as_deep_on_every_python() -> None:
    assert read_json(nested(MOST_LEVELS)) == json.loads(nested(MOST_LEVELS))
    for text in (nested(MOST_LEVELS + 1), nested(200_000), '{"a":' * 300 + "1" + "}" * 300):
        with pytest.raises(NestedTooDeep, match="nested deeper than 128 levels"):
            read_json(text)


def test_parameters_that_are_nested_too_deep_are_refused_in_words() -> None:
    with pytest.raises(InvalidInput, match="nested deeper"):
        parameters_of(f'{{"a": {nested(200_000)}}}')


def test_what_an_older_version_kept_is_still_shown() -> None:
    kept = RunResult(
        id="r", kind="agent", outcome="accepted", reason="r", explanation="e",
        output='{"a": NaN}', fits_schema=True,
    )  # fmt: skip
    assert with_value(kept) == kept


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner)
       | st.dictionaries(st.text(), inner), max_leaves=20))  # fmt: skip
def test_everything_else_is_read_as_it_is(value: JsonValue) -> None:
    assert read_json(json.dumps(value)) == value


def test_a_judge_that_contradicts_itself_gives_no_score() -> None:
    text = '{"dimensions": [{"name": "quality", "score": 0.1, "score": 0.9}]}'
    for reply in (text, f"quality: 0.9\n{text}"):
        found = _parse(reply, ["quality"])
        assert isinstance(found, BadReply) and "given twice" in found.problems[0]


def test_a_manager_or_worker_that_contradicts_itself_says_nothing() -> None:
    twice = '{"decision": "complete", "x": {"decision": "stop"}, "decision": "delegate"}'
    assert objects_in(twice) == ()
    assert objects_in(f'first {twice} then {{"decision": "ask"}}')[0].fields == {"decision": "ask"}
    assert objects_in(f'{twice[:-1]}, "reason": "cut of') == ()
    assert value_of('{"a": 1, "a": 2}') == '{"a": 1, "a": 2}'


def test_a_reviewer_that_contradicts_itself_gives_no_verdict() -> None:
    text = '{"verdict": "reject", "verdict": "approve"}'
    assert isinstance(find_embedded(text, "verdict"), BadReply)


def test_plans_learnings_scores_and_parameters_are_read_strictly() -> None:
    assert isinstance(read_plan('{"steps": [], "steps": [{"title": "x"}], "risks": []}'), BadReply)
    assert isinstance(read_learnings('{"learnings": [], "learnings": []}'), BadReply)
    scores = read_scores('{"quality": 0.1, "quality": 0.9}', ("quality",))
    assert isinstance(scores, BadScores) and "given twice" in scores.problem
    with pytest.raises(InvalidInput, match="given twice"):
        parameters_of('{"topic": "a", "topic": "b"}')


def test_a_long_reply_is_read_on_from_nowhere_behind_its_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each try reads all of it again: its worker would send no heartbeat for many seconds."""
    tries: list[str] = []

    def counted(text: str) -> JsonValue:
        tries.append(text)
        return read_json(text)

    monkeypatch.setattr(json_extraction, "read_json", counted)
    text = json.dumps({"items": [{"id": number} for number in range(400)]})
    found = objects_in(text.replace('"id": 200', '"id" 200'))
    assert [one.fields for one in found[:2]] == [{"id": 0}, {"id": 1}]
    assert tries == []
