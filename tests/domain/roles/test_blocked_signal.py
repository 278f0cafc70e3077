"""Stages that cannot go on say so at the beginning, in words or in structure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.roles.stage_reply import StageSignal, read_signal

SIGNALS = {
    "bare": ("BLOCKED", "blocked", ""),
    "with reason": ("BLOCKED: no access to the wiki.", "blocked", "no access to the wiki."),
    "needs context": ("NEEDS_CONTEXT: which port?", "needs_context", "which port?"),
    "needs context in words": ("Needs context: which port?", "needs_context", "which port?"),
    "as the prompt says it": ("NEEDS_CONTEXT Which port?", "needs_context", "Which port?"),
    "blocked by": (
        "**BLOCKED** by a missing key.\n\nSee a.log",
        "blocked",
        "by a missing key.\n\nSee a.log",
    ),
    "bold": ("**BLOCKED**: the build is away", "blocked", "the build is away"),
    "heading": ("## NEEDS CONTEXT\n\nWhich port?", "needs_context", "Which port?"),
    "status": ("Status: blocked\n\nThe key is missing.", "blocked", "The key is missing."),
    "fifth line": ("a\n\nb\nc\nd\nBLOCKED - e", "blocked", "e"),
    "structured": ('{"status": "blocked", "reason": "no key"}', "blocked", "no key"),
    "structured in a fence": (
        '```json\n{"status": "needs_context", "question": "Which port?"}\n```',
        "needs_context",
        "Which port?",
    ),
}
NONE = {
    "nothing": "",
    "sixth line": "a\nb\nc\nd\ne\nBLOCKED",
    "in a sentence": "The request was blocked by the proxy.",
    "other noun": "Blocked users are listed.",
    "a heading": "# BLOCKED USERS\n\n- ann",
    "capitals further down": "There are three kinds.\nBLOCKED users cannot log in.",
    "a constant": "BLOCKED_USERS = 3 is the limit.",
    "none in capitals": "BLOCKED no",
    "not": "Not blocked.",
    "none": "Blocked: none",
    "no": "blocked: no.",
    "an example": 'The reply looks like this:\n\n```json\n{"status": "blocked"}\n```',
    "another status": '{"status": "done"}',
    "a list as status": '{"status": ["blocked"]}',
}


@pytest.mark.parametrize(("text", "kind", "question"), SIGNALS.values(), ids=SIGNALS)
def test_a_stage_says_that_it_stands_still(text: str, kind: str, question: str) -> None:
    found = read_signal(text)
    assert found is not None
    assert (found.kind, found.question) == (kind, question)


@pytest.mark.parametrize("text", NONE.values(), ids=NONE)
def test_other_replies_go_on(text: str) -> None:
    assert read_signal(text) is None


@given(text=st.text())
def test_any_text_can_be_read_and_questions_are_bounded(text: str) -> None:
    found = read_signal("BLOCKED: " + text * 50)
    assert found is None or isinstance(found, StageSignal)
    assert found is None or len(found.question) <= 2_000
