"""A worker's reply is its structured result, or itself the result."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from perdure.domain.delegation.results import WorkerResult
from perdure.domain.delegation.summary import is_usable_result, wanted_tools
from perdure.domain.delegation.worker_reply import read_worker
from perdure.domain.generated_tools.draft import MOST_DRAFTS


def test_the_shape_of_the_contract_is_read() -> None:
    reply = {
        "result": '{"words": 7}',
        "confidence": 0.6,
        "findings": ["a", {"title": "b"}, "", None],
        "artifacts": [{"path": "a.md"}, "b.md"],
        "skills_created": [
            {"markdown": "# Skill: x\ntext"},
            {"markdown": "  "},
            "",
            {"name": "y", "content": "how to"},
        ],
        "defects": ["slow"],
        "tools_created": ["text.count"],
        "tools_needed": [
            {
                "name": "text.count",
                "code": "def count(): ...",
                "schema": '{"type": "object"}',
                "examples": '[{"a": 1}]',
            },
            {"name": "no.code"},
        ],
        "mood": "fine",
    }
    found = read_worker(json.dumps(reply))
    assert found.model_dump() == {
        "result": {"words": 7},
        "confidence": 0.6,
        "findings": ("a", "b"),
        "artifacts": ("a.md", "b.md"),
        "skills_created": ({"markdown": "# Skill: x\ntext"}, {"markdown": "# Skill: y\n\nhow to"}),
        "tools_needed": (
            {
                "name": "text.count",
                "code": "def count(): ...",
                "parameters": {"type": "object"},
                "description": "",
                "examples": ({"a": 1},),
            },
        ),
        "tools_created": ("text.count",),
        "defects": ({"category": "other", "title": "slow", "fix": "", "critical": False},),
        "unread": (),
        "unread_tools": ("no.code: a tool needs its Python code, the field `code`",),
    }


@pytest.mark.parametrize(
    "reply",
    [
        {"result": "", "confidence": 0.0, "defects": ["the file is not there"]},
        {"result": None, "confidence": 0.0, "defects": ["the file is not there"]},
        {"result": {}, "findings": [], "confidence": 0.0, "defects": ["the file is not there"]},
        {"answer": "", "confidence": 0, "defects": [{"title": "the file is not there"}]},
        {"confidence": 0.0, "defects": ["the file is not there"]},
        {"confidence": "0%", "defects": "the file is not there", "findings": []},
        {
            "artifacts": [],
            "tools_needed": [],
            "confidence": 0,
            "defects": ["the file is not there"],
        },
        {"result": [], "confidence": "none", "defects": ["the file is not there"]},
    ],
)
@pytest.mark.parametrize("form", ["{}", "I could not do it.\n```json\n{}\n```", "So: {} Sorry."])
def test_an_honest_failure_is_no_result(reply: dict[str, JsonValue], form: str) -> None:
    found = read_worker(form.replace("{}", json.dumps(reply)))
    assert not is_usable_result(found)
    assert found.confidence == 0.0
    assert [defect.title for defect in found.defects] == ["the file is not there"]


def test_a_confidence_alone_is_no_result() -> None:
    found = read_worker('{"confidence": 0.0}')
    assert (is_usable_result(found), found.confidence) == (False, 0.0)


@pytest.mark.parametrize(
    ("fields", "confidence", "defects"),
    [
        ({"status": "failed", "confidence": 0.0, "defects": ["no file"]}, 0.0, ["no file"]),
        ({"label": "cat", "confidence": 0.9}, 0.9, []),
        ({"error": "no file", "confidence": "low"}, 0.0, []),
        ({"error": "one of 9", "rows": 8, "confidence": "low"}, 0.2, []),
        ({"status": "failed", "job": "lint", "confidence": 0.9}, 0.9, []),
        ({"words": 7, "defects": ["only a guess"]}, None, ["only a guess"]),
        ({"reason": "no access", "confidence": "0/10", "defects": []}, 0.0, []),
        ({"words": 7}, None, []),
    ],
    ids=[
        "a status",
        "a label",
        "an error",
        "an error beside content",
        "a status as content",
        "a value",
        "a reason",
        "neither of them",
    ],
)
def test_confidence_and_defects_count_beside_a_result_of_another_shape(
    fields: dict[str, JsonValue], confidence: float | None, defects: list[str]
) -> None:
    found = read_worker(json.dumps(fields))
    assert (found.result, found.confidence) == (fields, confidence)
    assert [defect.title for defect in found.defects] == defects


HONEST_FAILURES = {
    "nested": '{"report": {"result": "", "confidence": 0.0, "defects": ["no access"]}}',
    "nested under another name": '{"worker_result": {"result": null, "confidence": "0%"}}',
    "nested beside a name": '{"worker": "w1", "output_of": {"confidence": 0, "defects": ["no"]}}',
    "nested in its own field": '{"result": {"result": "", "confidence": 0, "defects": ["no"]}}',
    "nested as a text": json.dumps({"response": '{"result": "", "confidence": 0.0}'}),
    "nested, in a fence": '```json\n{"data": {"Result": "", "Confidence": 0.0}}\n```',
    "in a list": '[{"result": "", "confidence": 0.0}]',
    "a capital": '{"result": "I could not open it", "Confidence": 0.0}',
    "capitals": '{"RESULT": "I could not open it", "CONFIDENCE": "NONE"}',
    "another spelling": '{"Final Result": "nothing", "confidence-score": 0.0}',
    "another word": '{"answer": "nothing", "Certainty": "0 %"}',
    "a remark": '{"result": "nothing", "confidence": "0.0 (no access)"}',
    "a remark behind a dash": '{"result": "nothing", "confidence": "0 - the file is gone"}',
    "a remark behind a word": '{"result": "nothing", "confidence": "none (no access)"}',
    "about": '{"result": "nothing", "confidence": "~0"}',
    "of ten": '{"result": "nothing", "confidence": "0 out of 10"}',
    "given twice": '{"result": "nothing", "confidence": 0.9, "confidence": 0.0}',
    "given twice in two spellings": '{"result": "nothing", "confidence": 0.9, "Confidence": 0.0}',
    "no number of JSON": '{"result": "nothing", "confidence": NaN}',
    "a range": '{"result": "nothing", "confidence": "0.0-0.9"}',
    "a switch": '{"result": "nothing", "confidence": false}',
    "a status": '{"status": "failed", "error": "no access to the file"}',
    "a status in a fence": 'I tried.\n```json\n{"Status": "FAILED", "reason": "no access"}\n```',
    "a status beside a result": '{"result": "I looked", "status": "could_not_complete"}',
    "a status that is sure": '{"status": "blocked", "reason": "no access", "confidence": 0.95}',
    "no success": '{"success": false, "message": "no access"}',
    "an error alone": '{"error": "no access"}',
    "a label": "I had no access to the file.\n\nConfidence: 0.0",
    "a bold label": "I had no access to the file.\n\n**Confidence:** 0.0",
    "a label behind a sentence": "I had no access. Confidence: none.",
    "a label in brackets": "I had no access (confidence: 0%)",
    "a label with words": "I had no access.\nMy overall confidence score = 0/10 (see above)",
    "a heading": "I had no access.\n\n## Confidence\n\n0.0",
    "a row": "I had no access.\n\n| Confidence | 0.0 |",
    "a label behind the object": '{"result": "I had no access"}\n\nConfidence: 0.0',
    "no JSON": "{'result': '', 'confidence': 0.0, 'defects': ['no access']}",
    "a corrected object": '{"result": "42", "confidence": 0.9}\nI was wrong:\n'
    '{"result": "", "confidence": 0.0, "defects": ["no access"]}',
    "corrected after a fence": '```json\n{"result": "42", "confidence": 0.9}\n```\nNo: '
    '{"result": "no access", "confidence": 0.0}',
    "corrected to what may not be read": '{"result": "42", "confidence": 0.9}\nNo:\n'
    '{"result": "", "confidence": 0.0, "confidence": 0.1}',
}  # fmt: skip


@pytest.mark.parametrize("text", HONEST_FAILURES.values(), ids=HONEST_FAILURES)
def test_an_honest_failure_is_seen_in_any_shape(text: str) -> None:
    assert read_worker(text).confidence == 0.0


@pytest.mark.parametrize(
    ("text", "result", "confidence"),
    [
        ('{"report": {"result": "r", "confidence": 0.9}}', "r", 0.9),
        ('{"result": "a", "confidence": 0.2}\nSo: {"result": "b", "confidence": 0.9}', "b", 0.9),
        ('{"result": "r", "confidence": 0.9}\nIt came as {"output": 7}.', "r", 0.9),
        ('{"result": "r", "confidence": 0, "confidence": 0}\n{"result": "b"}\n'
         '{"result": "c", "confidence": 0.8}', "c", 0.8),
        ('{"Answer": "r", "Confidence": "0,7"}', "r", 0.7),
        ('{"result": "r", "confidence": "high, all is tested"}', "r", 0.8),
        ('{"result": "r", "status": "done", "error": null, "confidence": 0.9}', "r", 0.9),
        ('{"result": "r", "Confidence": 0.9, "confidence": 0.9}', "r", 0.9),
        ('{"detection": {"label": "cat", "confidence": 0.0}}',
         {"detection": {"label": "cat", "confidence": 0.0}}, None),
        ('{"words": {"count": 7}}', {"words": {"count": 7}}, None),
        ("All read.\n\nConfidence: 0.9", "All read.\n\nConfidence: 0.9", 0.9),
    ],
    ids=["nested", "corrected", "an example after it", "refused before it", "a comma",
         "a word with a remark", "a good status", "the same twice", "content", "more content",
         "a label"],
)  # fmt: skip
def test_work_that_was_done_is_read_in_any_shape(
    text: str, result: JsonValue, confidence: float | None
) -> None:
    found = read_worker(text)
    assert (found.result, found.confidence) == (result, confidence)


@pytest.mark.parametrize(
    "text",
    [
        "Confidence: the key to success.",
        "Confidence: 0.1 for cats.\n\n" + "All of it was read and counted.\n" * 5,
        "The confidence is 0.1 for cats, and that is what the paper says.",
        "Our confidence in banks fell to 0 that year.",
        "{ confidence: number; label: string }",
        'The server answers {"status": "failed", "error": "x"} in that case, and goes on.',
    ],
    ids=["a title", "at the beginning", "a sentence", "trust", "a type", "a quotation"],
)
def test_prose_may_speak_of_confidence_and_failure(text: str) -> None:
    assert read_worker(text).confidence is None


@pytest.mark.parametrize(
    "text",
    [
        'The log holds {"confidence": 0.1, "line": 3} and ends.',
        '```python\nsure = {"confidence": 0.0, "label": "cat"}\n```',
        '[{"confidence": 0.1, "line": 3}]',
        'Each entry ends with {"confidence": 0.1}, which is too little.',
    ],
    ids=["a quotation", "code", "a list", "a field of the form"],
)
def test_what_a_text_quotes_says_nothing_of_its_worker(text: str) -> None:
    found = read_worker(text)
    assert is_usable_result(found)
    assert found.confidence is None


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("Seven words.", "Seven words."),
        ('{"words": 7}', {"words": 7}),
        ("[1, 2]", [1, 2]),
        ("", None),
        ("  ", None),
        ('Here: ```json\n{"result": "r"}\n```', "r"),
        ('{"answer": "a"}', "a"),
        ('{"result": "r", "findings": ["half', "r"),
        ('{"result": 0}', 0),
    ],
)
def test_a_reply_of_another_shape_is_the_result(text: str, result: JsonValue) -> None:
    assert read_worker(text).result == result


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("low", 0.2),
        (" Very-High ", 0.9),
        ("0.7", 0.7),
        ("70%", 0.7),
        ("7/10", 0.7),
        ("70 / 100", 0.7),
        (1, 1.0),
        (None, None),
        ("", None),
    ],
)
def test_a_confidence_is_understood_as_models_write_it(
    given: JsonValue, value: float | None
) -> None:
    found = read_worker(json.dumps({"result": "r", "confidence": given}))
    assert (found.confidence, found.unread) == (value, ())


@pytest.mark.parametrize("value", [7, -1, "sure enough", "7/0", "12/10", True, [0.5], {}], ids=str)
def test_a_confidence_that_nobody_can_read_is_told_and_no_work_done(value: JsonValue) -> None:
    found = read_worker(json.dumps({"result": "r", "confidence": value}))
    assert found.confidence == 0.0
    assert "allowed: a number from 0 to 1. The work counts as not done." in found.unread[0]


BAD_TOOLS: dict[str, JsonValue] = {
    "a text": "text.count",
    "without a name": {"code": "x"},
    "without code": {"name": "text.count"},
    "a schema that is no object": {"name": "text.count", "code": "x", "schema": "[1]"},
    "an example that is a text": {"name": "text.count", "code": "x", "examples": ["a"]},
    "an example without arguments": {"name": "text.count", "code": "x", "examples": [{"a": 1}]},
    "examples that are a number": {"name": "text.count", "code": "x", "examples": 7},
}


@pytest.mark.parametrize("tool", BAD_TOOLS.values(), ids=BAD_TOOLS)
def test_a_tool_that_is_no_draft_is_refused_in_words(tool: JsonValue) -> None:
    wanted = wanted_tools(read_worker(json.dumps({"result": "r", "tools_needed": [tool]})))
    assert wanted.drafts == ()
    assert len(wanted.problems) == 1


def test_more_tools_than_are_taken_are_counted() -> None:
    tools = [{"name": f"text.n{number}", "code": "x"} for number in range(MOST_DRAFTS + 3)]
    wanted = wanted_tools(read_worker(json.dumps({"result": "r", "tools_needed": tools})))
    assert len(wanted.drafts) == MOST_DRAFTS
    assert "3 more tools" in wanted.problems[0]


@given(st.text(max_size=300))
def test_any_text_gives_a_result(text: str) -> None:
    found = read_worker(text)
    assert WorkerResult.model_validate_json(found.model_dump_json()) == found


def _nested(levels: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


UNSTORABLE = {
    "a deep result": {"result": _nested(300)},
    "a deep schema": {
        "result": "x",
        "tools_needed": [{"name": "a.b", "code": "x", "schema": _nested(300)}],
    },
    "half a character in the result": {"result": "\ud800"},
    "half a character in a finding": {"result": "x", "findings": ["\ud800"]},
    "half a character in a name": {"result": {"\ud800": 1}},
    "half a character in code": {
        "result": "x",
        "tools_needed": [{"name": "a.b", "code": "'\ud800'"}],
    },
}


@pytest.mark.parametrize("reply", UNSTORABLE.values(), ids=UNSTORABLE)
def test_what_a_worker_says_can_always_be_written_down(reply: dict[str, object]) -> None:
    read = read_worker(json.dumps(reply))
    assert read.result is not None
    assert WorkerResult.model_validate_json(read.model_dump_json()) == read


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("Look first.", "# Skill: Look\n\nLook first."),
        ("## Purpose\nLook first.", "# Skill: Look\n\n## Purpose\nLook first."),
        ("# Looking\nLook first.", "# Looking\nLook first."),
    ],
    ids=["no heading", "headings of sections alone", "a title of its own"],
)
def test_a_name_beside_the_text_of_a_skill_counts(text: str, heading: str) -> None:
    skill = {"name": "Look", "markdown": text}
    (read,) = read_worker(json.dumps({"result": "r", "skills_created": [skill]})).skills_created
    assert read.markdown == heading
