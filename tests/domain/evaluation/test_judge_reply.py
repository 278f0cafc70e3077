"""Judge replies: structured, labelled, and every way to be no judgement."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.judge_reply import Asked, Judgement, judge_schema, read_judgement
from perdure.domain.evaluation.scores import severity_of
from perdure.domain.llm.structured_replies import BadReply

ASKED = Asked(dimensions=("tone", "Clear style"), open_findings=("F1", "F2"), next_finding=3)
TONE = {"name": "tone", "score": 0.7, "gap": "too formal"}
STYLE = {"name": "Clear style", "score": 1.0}
BLOCKER = {"severity": "critical", "dimension": "tone", "title": "insult", "fix": "remove it"}


def reply(*dimensions: Mapping[str, object], **more: object) -> str:
    return json.dumps({"dimensions": list(dimensions), **more})


def judged(text: str) -> Judgement:
    found = read_judgement(text, ASKED)
    assert isinstance(found, Judgement), found
    return found


def test_a_structured_reply() -> None:
    found = judged(reply(TONE, STYLE, findings=[BLOCKER], resolved=["f1", "F9", "F1"]))
    assert [(item.name, item.score, item.gap) for item in found.scores] == [
        ("tone", 0.7, "too formal"),
        ("Clear style", 1.0, ""),
    ]
    assert found.scores[0].capped == 0.3
    assert [(item.id, item.severity, item.fix) for item in found.findings] == [
        ("F3", "blocker", "remove it")
    ]
    assert found.resolved == ("F1",)


def test_a_finding_without_a_severity_costs_no_score() -> None:
    found = judged(reply(TONE, STYLE, findings=[{**BLOCKER, "severity": None}]))
    assert [(item.severity, item.title) for item in found.findings] == [("important", "insult")]
    assert found.slips == ("severity: found ''; allowed: blocker, important, suggestion.",)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```json\n" + reply(TONE, STYLE) + "\n```", id="in fences"),
        pytest.param("Here it is: " + reply(TONE, STYLE) + " Done.", id="between words"),
        pytest.param(reply({**TONE, "name": "TONE"}, STYLE, note="x"), id="case, surplus field"),
    ],
)
def test_harmless_forms_are_read(text: str) -> None:
    assert [item.score for item in judged(text).scores] == [0.7, 1.0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("All fine, accept it!", "neither JSON", id="prose"),
        pytest.param("{not json}", "neither JSON", id="broken"),
        pytest.param("", "neither JSON", id="nothing"),
        pytest.param("{" * 3000 + "}" * 3000, "neither JSON", id="nested for ever"),
        pytest.param("{}", "neither JSON", id="no dimensions"),
        pytest.param('{"dimensions": null}', "dimensions: found", id="null"),
        pytest.param(reply(), "No dimension is scored", id="scores nothing"),
        pytest.param(reply(TONE), "No score for: Clear style", id="misses one"),
        pytest.param(reply(TONE, STYLE, TONE), "scored twice", id="twice"),
        pytest.param(
            reply(TONE, STYLE, {"name": "x", "score": 1}), "x was not asked for", id="invented"
        ),
        pytest.param(reply({**TONE, "score": 7}, STYLE), "not between 0 and 1", id="out of range"),
        pytest.param(
            reply({**TONE, "score": float("nan")}, STYLE), "NaN is a number that", id="not a number"
        ),
        pytest.param(reply({**TONE, "score": True}, STYLE), "dimensions[0].score", id="true"),
        pytest.param(
            reply({**TONE, "score": 1.0}, STYLE, findings=[BLOCKER]), "a blocker of it", id="both"
        ),
        pytest.param(
            reply(TONE, STYLE, findings=[{**BLOCKER, "dimension": "smell"}]),
            "no dimension",
            id="finding on nothing",
        ),
    ],
)
def test_what_is_no_judgement(text: str, problem: str) -> None:
    found = read_judgement(text, ASKED)
    assert isinstance(found, BadReply)
    assert any(problem in said for said in found.problems), found.problems


def test_a_pass_by_the_threshold_contradicts_a_blocker() -> None:
    text = reply({**TONE, "score": 0.8}, STYLE, findings=[BLOCKER])
    asked = Asked(dimensions=ASKED.dimensions, pass_score=0.8)
    assert isinstance(read_judgement(text, asked), BadReply)
    assert isinstance(read_judgement(text, ASKED), Judgement)


UPPER = """SCORES:
- tone: 0.7 (too formal)
- **clear style**: 0.5
FINDINGS:
1. [major] Clear style: long sentence. Fix: cut it in two.
NEW FINDINGS:
- critical: tone: insult
RESOLVED: F2, f1
SUGGESTION: read it aloud
"""
HEADINGS = """Some thoughts first.
## Scores
tone = 0.7 - too formal
Clear style: .5/1
## Suggestion
read it aloud
## Resolved
none
"""


def test_resolved_findings_as_one_text() -> None:
    found = judged(reply(TONE, STYLE, resolved="f1, F9"))
    assert found.resolved == ("F1",)


def test_labelled_text_in_upper_case() -> None:
    found = judged(UPPER)
    assert [(item.score, item.gap) for item in found.scores] == [
        (0.7, "too formal"),
        (0.5, "long sentence"),
    ]
    assert [(item.severity, item.dimension, item.fix) for item in found.findings] == [
        ("blocker", "tone", ""),
        ("important", "Clear style", "cut it in two."),
    ]
    assert found.resolved == ("F2", "F1")


def test_labelled_text_under_headings() -> None:
    found = judged(HEADINGS)
    assert [(item.score, item.gap) for item in found.scores] == [
        (0.7, "too formal"),
        (0.5, "read it aloud"),
    ]
    assert found.resolved == ()


@pytest.mark.parametrize("line", ["tone: good", "tone: 70%", "tone: 7/10", "tone:", "tones: 0.5"])
def test_an_unreadable_score_line_drops_its_dimension(line: str) -> None:
    found = read_judgement(f"SCORES:\n{line}\nClear style: 1.0", ASKED)
    assert isinstance(found, BadReply)
    assert found.problems[0] == "No score for: tone." and line in found.problems[1]


@pytest.mark.parametrize(
    ("word", "severity"),
    [
        ("Critical", "blocker"),
        ("blocker", "blocker"),
        ("MAJOR", "important"),
        ("high", "important"),
        ("important", "important"),
        ("minor", "suggestion"),
        ("low", "suggestion"),
        ("whatever", "suggestion"),
    ],
)
def test_severity_words(word: str, severity: str) -> None:
    assert severity_of(word) == severity


def test_the_schema_offers_only_what_was_asked() -> None:
    schema = json.dumps(judge_schema(("tone",)))
    assert '"name": {"enum": ["tone"]}' in schema
    assert '"score": {"enum": [0.0, 0.1' in schema


def scored(*names: str) -> str:
    return reply(*({"name": name, "score": 0.5, "gap": "stiff"} for name in names))


ALIKE = ("Tone", "tone")


@pytest.mark.parametrize(
    ("names", "text", "problem"),
    [
        pytest.param(ALIKE, scored("Tone", "tone"), None, id="each as written"),
        pytest.param(ALIKE, scored("tone"), "No score for: Tone.", id="one of them"),
        pytest.param(ALIKE, scored("TONE"), "No score for: Tone, tone.", id="either"),
        pytest.param(ALIKE, "SCORES:\nTone: 0.5 - a\ntone: 0.2 - b", None, id="labelled"),
        pytest.param(ALIKE, "SCORES:\ntone: 0.5 - a", "No score for: Tone.", id="labelled, one"),
        pytest.param((" tone ",), scored("tone"), None, id="blanks around it"),
        pytest.param((" tone ",), "SCORES:\nTone: 0.5 - a", None, id="labelled, blanks"),
        pytest.param(("Maß",), "SCORES:\nMaß 0.5 - a", None, id="a letter that folds to two"),
        pytest.param(("Maß",), "SCORES:\n- MASS 0.5 - a", None, id="in capitals"),
    ],
)
def test_names_of_stored_rubrics_that_fold_alike(
    names: tuple[str, ...], text: str, problem: str | None
) -> None:
    found = read_judgement(text, Asked(dimensions=names))
    if problem is None:
        assert isinstance(found, Judgement), found
        assert tuple(item.name for item in found.scores) == names
    else:
        assert isinstance(found, BadReply)
        assert problem in found.problems


@given(st.text(max_size=300) | st.text('SCORES:tone01.5\n-# {}[]"', max_size=80))
def test_any_text_is_a_judgement_or_a_bad_reply(text: str) -> None:
    found = read_judgement(text, ASKED)
    if isinstance(found, Judgement):
        assert [item.name for item in found.scores] == list(ASKED.dimensions)
    else:
        assert found.problems
