"""Labelled replies of a judge: every line is understood, or the reply is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.evaluation.judge_reply import Asked, Judgement, read_judgement
from perdure.domain.llm.structured_replies import BadReply

ONE = Asked(dimensions=("quality",), open_findings=("F1", "F2"), next_finding=3)
TWO = Asked(dimensions=("tone", "clear style"), open_findings=("F1",), next_finding=2)


def scored(line: str) -> Judgement | BadReply:
    return read_judgement(f"SCORES:\n{line}\nSUGGESTION: go on", ONE)


@pytest.mark.parametrize(
    ("line", "score"),
    [
        ("quality: 0.9", 0.9),
        ("- quality: 0.9 (nearly there)", 0.9),
        ("**quality**: 0.9", 0.9),
        ("**quality: 0.9**", 0.9),
        ("quality = .5/1", 0.5),
        ("quality - 0.7 - too long", 0.7),
        ("QUALITY: 1", 1.0),
        ("quality: 1/1", 1.0),
        ("quality: 0.7 too long", 0.7),
        ("quality: 0.9 (was 0.4)", 0.9),
        ("quality: 0.7, too long", 0.7),
    ],
)
def test_a_score_line_is_read(line: str, score: float) -> None:
    found = scored(line)
    assert isinstance(found, Judgement), found
    assert found.scores[0].score == score


@pytest.mark.parametrize(
    "line",
    [
        "quality: -0.9",
        "quality -0.9",
        "quality: −0.9",
        "quality: - 0.9",
        "quality: 0,9",
        "quality: 7/10",
        "quality: 1 / 10",
        "quality: 1 of 10",
        "quality: 1 out of 5",
        "quality: 0.9 out of 10",
        "quality: 1 (of 10)",
        "quality: 70%",
        "quality: 0.7 %",
        "quality: 1 star",
        "quality: 1 bug is left",
        "quality: 0.7-0.9",
        "quality: 0.7 - 0.9",
        "quality: 0.7 to 0.9",
        "quality: 0.9? no, 0.2",
        "quality: ~0.9",
        "quality: < 0.9",
        "quality: not 0.9",
        "quality: 1e-3",
        "quality: 1.5",
        "quality: 9",
        "quality: NaN",
        "quality: 0.9\n- quality: 0.2",
        "quality of style: 0.9",
        "quality: 0.9\n- grammar: 0.1",
    ],
)
def test_no_score_is_made_up(line: str) -> None:
    assert isinstance(scored(f"- {line}"), BadReply)


FINDINGS = [
    ("- [blocker] tone: insult", "blocker"),
    ("- **Blocker** tone: insult", "blocker"),
    ("- CRITICAL: tone: insult", "blocker"),
    ("- tone (blocker): insult", "blocker"),
    ("- tone: [critical] insult", "blocker"),
    ("- tone - blocker: insult", "blocker"),
    ("- [blocker, tone] insult", "blocker"),
    ("- [tone | blocker] insult", "blocker"),
    ("- [F2] [blocker] tone: insult", "blocker"),
    ("- F2: [blocker] tone: insult", "blocker"),
    ("- blocker in tone: insult", "blocker"),
    ("- [fatal] tone: insult", "blocker"),
    ("- [blocker] tone:\n  insult", "blocker"),
    ("- [major] tone: insult", "important"),
    ("- [serious] tone: insult", "important"),
    ("- tone: insult", "suggestion"),
    ("- [nit] tone: insult", "suggestion"),
    ("- [minor] tone: critical remark sounds harsh", "suggestion"),
]


@pytest.mark.parametrize("label", ["FINDINGS:", "NEW FINDINGS:", "## Findings", "**FINDINGS:**"])
@pytest.mark.parametrize(("line", "severity"), FINDINGS, ids=[line for line, _ in FINDINGS])
def test_a_finding_is_read_in_many_forms(label: str, line: str, severity: str) -> None:
    text = f"SCORES:\n- tone: 0.2 (rude)\n- clear style: 1.0\n{label}\n{line}\n  Fix: be kind"
    found = read_judgement(text, TWO)
    assert isinstance(found, Judgement), found
    assert [(one.severity, one.dimension, one.fix) for one in found.findings] == [
        (severity, "tone", "be kind")
    ]
    assert not found.slips


@pytest.mark.parametrize(
    "findings",
    [
        pytest.param("FINDINGS:\n- [blocker] insults the reader", id="no dimension"),
        pytest.param("FINDINGS:\n- [blocker] grammar: wrong", id="unknown dimension"),
        pytest.param("FINDINGS:\n- tone: insult, which is a blocker", id="severity at the end"),
        pytest.param("FINDINGS:\n- tone: x [important]", id="bracket at the end"),
        pytest.param("BLOCKERS:\n- tone: insult", id="unknown label"),
        pytest.param("## Critical issues\ntone: insult", id="unknown heading"),
        pytest.param("ISSUES: tone insults", id="unknown label in a line"),
        pytest.param("BLOCKER: it insults the reader", id="under no label"),
        pytest.param("SUGGESTION: tone (blocker): insult", id="bracketed among suggestions"),
        pytest.param("OVERALL: tone [critical] insults", id="bracketed in a remark"),
        pytest.param("SUGGESTION: try again\n[blocker] tone: insult", id="among suggestions"),
        pytest.param("OVERALL:\nfine\n[critical] tone: insult", id="among remarks"),
        pytest.param("FINDINGS:\n- [blocker] tone: x\n\nIt deletes data.\nSee above.", id="prose"),
        pytest.param("SCORES:\n- tone: 0.9", id="scored again"),
    ],
)
def test_a_finding_is_never_passed_over(findings: str) -> None:
    text = f"SCORES:\n- tone: 0.9 (nearly)\n- clear style: 1.0\n{findings}"
    found = read_judgement(text, TWO)
    if isinstance(found, Judgement):
        assert any(one.severity == "blocker" for one in found.findings)
    else:
        assert found.problems


@pytest.mark.parametrize("line", ["[blocker] tone: insult", "tone (blocker): insult"])
def test_a_blocker_before_the_labels_counts(line: str) -> None:
    text = f"{line}\nSCORES:\n- tone: 0.9 (nearly)\n- clear style: 1.0"
    assert isinstance(read_judgement(text, TWO), BadReply)


@pytest.mark.parametrize("place", ["{}\n", "SUMMARY: {}\n"])
@pytest.mark.parametrize(
    "thought", ["My confidence is (high).", "No issue (blocker) is left.", "Tone is fine [minor]."]
)
def test_a_severity_in_thoughts_is_no_finding(place: str, thought: str) -> None:
    text = f"{place.format(thought)}SCORES:\ntone: 1.0\nclear style: 1.0"
    assert isinstance(read_judgement(text, TWO), Judgement)


def test_thoughts_before_the_labels_do_no_harm() -> None:
    text = "I read it twice.\nIt is kind.\n\nSCORES:\ntone: 1.0\nclear style: 1.0\nSUMMARY: good"
    assert isinstance(read_judgement(text, TWO), Judgement)


@pytest.mark.parametrize("said", ["none", "None.", "- none", "N/A", "no new findings", "-", "[]"])
def test_words_for_nothing_are_no_findings(said: str) -> None:
    text = f"SCORES:\n- tone: 1.0\n- clear style: 1.0\nFINDINGS:\n{said}\nRESOLVED: {said}"
    found = read_judgement(text, TWO)
    assert isinstance(found, Judgement) and found.findings == () == found.resolved


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        ("F1", ("F1",)),
        ("F1, F2", ("F1", "F2")),
        ("f1 and F2", ("F1", "F2")),
        ("F1: now polite", ("F1",)),
        ("F1 (fixed)", ("F1",)),
        ("[F1]", ("F1",)),
    ],
)
def test_resolved_findings(line: str, ids: tuple[str, ...]) -> None:
    found = read_judgement(f"SCORES:\nquality: 1.0\nRESOLVED: {line}", ONE)
    assert isinstance(found, Judgement) and found.resolved == ids


@pytest.mark.parametrize(
    "line",
    [
        "F1 is not resolved",
        "F1: still there",
        "F1 partly",
        "all",
        "none of F1, F2",
        "F1 is done; F2 remains",
        "F1? ",
        "F1 would be, once F2 is",
        "everything but F1",
    ],
)
def test_what_is_not_settled_is_not_closed(line: str) -> None:
    found = read_judgement(f"SCORES:\nquality: 0.9 (x)\nRESOLVED: {line}", ONE)
    assert isinstance(found, BadReply)


SLIPS = {
    "no gap": {"dimensions": [{"name": "quality", "score": 0.9}]},
    "blank gap": {"dimensions": [{"name": "quality", "score": 0.9, "gap": " "}]},
    "null gap": {"dimensions": [{"name": "quality", "score": 0.9, "gap": None}]},
    "a severity of its own": {
        "dimensions": [{"name": "quality", "score": 0.9, "gap": "x"}],
        "findings": [{"severity": "sev2", "dimension": "quality", "title": "slow"}],
    },
    "a finding without words": {
        "dimensions": [{"name": "quality", "score": 0.5, "gap": "x"}],
        "findings": [{"severity": "blocker", "dimension": "quality", "title": ""}],
    },
}


@pytest.mark.parametrize("reply", SLIPS.values(), ids=SLIPS)
def test_a_slip_of_form_leaves_the_score(reply: object) -> None:
    found = read_judgement(json.dumps(reply), ONE)
    assert isinstance(found, Judgement) and found.slips
    assert all(one.severity != "suggestion" for one in found.findings)


MISPLACED = {
    "beside the dimensions": {"blockers": ["it deletes data"]},
    "as text": {"issues": "it deletes data"},
    "in a dimension": {"dimensions": [{"name": "quality", "score": 0.9, "gap": "x", "bugs": [1]}]},
    "in a finding": {
        "findings": [{"severity": "minor", "dimension": "quality", "title": "x", "blocks": "yes"}]
    },
    "as an object": {"review": {"blocker": "it deletes data"}},
}


SCORED = json.dumps({"dimensions": [{"name": "quality", "score": 0.9, "gap": "x"}]})
LEFT_OUT = {
    "findings below it": f"{SCORED}\nFINDINGS:\n- [blocker] quality: it insults the reader",
    "findings above it": f"FINDINGS:\n- it insults the reader\n\n{SCORED}",
    "a blocker below it": f"{SCORED}\nBLOCKER: it insults the reader",
    "a blocker in small letters": f"{SCORED}\n- critical: it insults the reader",
    "a blocker in brackets": f"{SCORED}\nOne more thing. (blocker) It insults the reader.",
    "a blocker in a sentence": f"{SCORED}\nIt insults the reader, which is a blocker.",
    "a priority": f"{SCORED}\nP0: it insults the reader",
    "a note with a blocker": "SCORES:\n- quality: 0.9 (x)\nNOTES: blocker: it insults the reader",
    "a blocker in a gap": "SCORES:\n- quality: 0.9 [blocker] it insults the reader",
    "a blocker as a gap": json.dumps(
        {"dimensions": [{"name": "quality", "score": 0.9, "gap": "Blocker: it insults"}]}
    ),
    "a verdict that says no": SCORED.replace("{", '{"verdict": "FAIL", ', 1),
    "a switch that says no": SCORED.replace("{", '{"pass": false, ', 1),
    "a state that says no": SCORED.replace("{", '{"status": "needs_revision", ', 1),
    "a no in a dimension": SCORED.replace('"gap"', '"accepted": "no", "gap"'),
    "a recommendation": SCORED.replace("{", '{"recommendation": "Do not ship it.", ', 1),
}


@pytest.mark.parametrize("text", LEFT_OUT.values(), ids=LEFT_OUT)
def test_nothing_that_stands_against_acceptance_is_left_out(text: str) -> None:
    assert isinstance(read_judgement(text, ONE), BadReply)


POOR = SCORED.replace("0.9", "0.4")
HARMLESS = {
    "words": f"I read the text twice.\n{SCORED}\nThat is all.",
    "a critical review": f"Here is my critical review of the text.\n{SCORED}",
    "a critical eye": f"I read it with a critical eye.\n{SCORED}",
    "nothing grave": f"There are no blockers, and nothing critical.\n{SCORED}",
    "no findings": f"{SCORED}\nFINDINGS: none",
    "a yes": SCORED.replace("{", '{"verdict": "PASS", "passes": true, "status": "ok", ', 1),
    "no issues": SCORED.replace("{", '{"status": "no issues found", ', 1),
    "a no beside a poor score": POOR.replace("{", '{"verdict": "FAIL", "pass": false, ', 1),
    "a no beside its finding": json.dumps(
        {
            "dimensions": [{"name": "quality", "score": 0.9, "gap": "x"}],
            "findings": [{"severity": "important", "dimension": "quality", "title": "rude"}],
            "verdict": "fail",
        }
    ),
    "a summary": SCORED.replace("{", '{"summary": "It is not bad at all.", ', 1),
}


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_words_that_take_nothing_back_do_no_harm(text: str) -> None:
    assert isinstance(read_judgement(text, ONE), Judgement)


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ("quality: insulting. Severity: high", "important"),
        ("quality: insulting (severity: critical)", "blocker"),
        ("quality (P0): insulting", "blocker"),
        ("[P1] quality: insulting", "important"),
        ("P3: quality: a comma", "suggestion"),
        ("quality: a comma. Severity - minor", "suggestion"),
        ("quality: insulting. Severity: sev1", "important"),
    ],
)
def test_how_bad_a_finding_is_counts_wherever_it_stands(line: str, severity: str) -> None:
    found = read_judgement(f"SCORES:\nquality: 0.4 (x)\nFINDINGS:\n- {line}", ONE)
    assert isinstance(found, Judgement), found
    assert [one.severity for one in found.findings] == [severity]


@pytest.mark.parametrize("more", MISPLACED.values(), ids=MISPLACED)
def test_what_stands_in_no_place_for_it_is_told(more: dict[str, object]) -> None:
    reply = {"dimensions": [{"name": "quality", "score": 0.9, "gap": "x"}], **more}
    assert isinstance(read_judgement(json.dumps(reply), ONE), BadReply)


def test_findings_beside_their_score_and_those_of_the_only_dimension_are_placed() -> None:
    first = {"severity": "blocker", "title": "insult"}
    reply = {
        "dimensions": [{"name": "quality", "score": 0.2, "gap": "x", "findings": [first]}],
        "findings": [{"severity": "minor", "title": "long"}],
    }
    found = read_judgement(json.dumps(reply), ONE)
    assert isinstance(found, Judgement)
    assert [(one.dimension, one.severity) for one in found.findings] == [
        ("quality", "suggestion"),
        ("quality", "blocker"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        'SCORES:\nquality: 0.1\n{"dimensions": [{"name": "quality", "score": 1.0}]}',
        '{"dimensions": [{"name": "quality", "score": 0.1, "gap": "x"}]}\n'
        '{"dimensions": [{"name": "quality", "score": 1.0}]}',
        '{"dimensions": [{"name": "quality", "score": 1.0}], "findings": [{"severity": "bl',
        "quality: 0.4\nSCORES:\n- quality: 0.9",
        "quality: -0.4\nSCORES:\n- quality: 0.9",
        "SCORES:\n- quality: 0.9\n## Notes\n- quality: 0.4 at first",
    ],
)
def test_a_reply_that_says_two_things_is_none(text: str) -> None:
    assert isinstance(read_judgement(text, ONE), BadReply)


def test_a_score_that_is_said_before_it_is_given_is_one() -> None:
    found = read_judgement("My view:\nquality: 0.9, nearly there\nSCORES:\n- quality: 0.9", ONE)
    assert isinstance(found, Judgement)
    assert found.scores[0].score == 0.9


_WORDS = st.lists(
    st.sampled_from(
        [
            *("SCORES:", "FINDINGS:", "RESOLVED:", "SUGGESTION:", "## Notes", "NEW FINDINGS:"),
            *("- quality: 0.9", "quality: 1.0", "quality: -0.4", "- [blocker] it deletes data"),
            *("[blocker] quality: insult", "CRITICAL: x", "- fix: y", "F1", "none", "words", "  a"),
            *("- BLOCKER - bad", "BLOCKERS:", "quality (blocker): z", '{"dimensions": []}'),
        ]
    ),
    max_size=8,
).map("\n".join)


@given(_WORDS)
def test_no_reader_invents_a_score_or_drops_a_blocker(text: str) -> None:
    found = read_judgement(text, ONE)
    if not isinstance(found, Judgement):
        assert found.problems
        return
    assert f"quality: {found.scores[0].score:g}" in text or found.scores[0].score == 1.0
    # Under these labels it is what a finding says, and no score.
    assert "-0.4" not in text or "FINDINGS:" in text or "SUGGESTION:" in text
    graves = [line for line in text.splitlines() if "blocker]" in line.lower()]
    graves += [line for line in text.splitlines() if "(blocker)" in line or line[:9] == "CRITICAL:"]
    assert sum(one.severity == "blocker" for one in found.findings) >= len(set(graves))
