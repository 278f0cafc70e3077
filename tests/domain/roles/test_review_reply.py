"""Verdicts: no wrong approval over a table of real wordings, and rules that hold for any text."""

import json
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.roles.review_reply import RoleVerdict, Verdict, read_verdict, verdict_schema
from perdure.domain.roles.review_reply_text import read_review

TABLE = yaml.safe_load(Path(__file__).with_name("reviews.yaml").read_text(encoding="utf-8"))
CASES = [
    pytest.param(text, group["verdict"], id=f"{group['verdict']} - {name}")
    for group in TABLE
    for name, text in group["texts"].items()
]
PLAIN = [
    (text, group["verdict"])
    for group in TABLE
    for text in group["texts"].values()
    if group.get("plain")
]
LONG = 50_000


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_a_review_is_read_as_people_read_it(text: str, expected: str) -> None:
    decision = read_verdict(text).decision
    assert decision == expected or (
        # What has more to say than an approval is asked for its verdict as a structure.
        decision == "unclear" and expected == "approved" == read_review(text)
    )


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n\n", "```\n```", "{}", "[]", "…", "\u200b", "-", '{"requirements_met": null}'],
    ids=repr,
)
def test_a_review_that_says_nothing_is_unclear(text: str) -> None:
    verdict = read_verdict(text)
    assert (verdict.decision, verdict.approved) == ("unclear", False)


def test_the_table_is_large_and_few_plain_reviews_are_unclear() -> None:
    assert len(CASES) >= 120
    assert len(PLAIN) >= 100
    unclear = [text for text, _ in PLAIN if read_review(text) == "unclear"]
    assert len(unclear) <= 0.02 * len(PLAIN), unclear


@pytest.mark.parametrize(
    "before", ["word ", "A sentence about the cache.\n", "- [x] done\n", "(((("]
)
@pytest.mark.parametrize("last", ["APPROVED", "NEEDS CHANGES"])
def test_the_end_of_a_long_review_counts(before: str, last: str) -> None:
    text = before * (LONG // len(before)) + f"\n\n{last}"
    assert read_review(text) == ("approved" if last == "APPROVED" else "rejected")
    assert not read_verdict(text).approved


@pytest.mark.parametrize(
    "piece",
    [
        "approved ",
        "(",
        "not ",
        "i am ",
        "\"'`",
        "<!--",
        "```\n",
        "no critical or ",
        "{",
        '{"a":',
        "|",
        "all ",
    ],
)
def test_hostile_texts_take_no_time(piece: str) -> None:
    text = piece * (LONG // len(piece)) + ' "requirements_met" '
    began = time.process_time()
    read_verdict(text)
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "said",
    [
        "Not approved.",
        "I do not approve this.",
        "I cannot approve this change.",
        "NEEDS CHANGES",
        "Verdict: REJECTED",
        "It still needs work.",
        "APPROVED once the tests pass.",
        "But only if the tests pass, then it is approved.",
        "APPROVED?",
    ],
)
@given(text=st.one_of(st.text(), st.sampled_from([text for text, _ in PLAIN])))
def test_what_is_taken_back_at_the_end_never_approves(said: str, text: str) -> None:
    assert not read_verdict(f"{text}\n\n{said}").approved


@given(text=st.text(alphabet=st.characters(exclude_characters="aAlL")))
def test_nothing_approves_without_a_word_of_approval(text: str) -> None:
    # Every such word has an `a` or an `l`, but those in other alphabets that mean the same letter.
    verdict = read_verdict(text)
    assert not verdict.approved or any(ord(one) > 127 for one in text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Approved 🛑", id="a stop sign"),
        pytest.param("Approved ❎", id="a cross"),
        pytest.param("🔴 Approved", id="a red light"),
        pytest.param("Approved 🙃", id="a face upside down"),
        pytest.param("LGTM 🚧", id="works ahead"),
        pytest.param("Approved.\n- [ ] tests are missing", id="an open box"),
        pytest.param("Approved <!-- rejected -->", id="a comment"),
        pytest.param("Approved\n\n```\nrejected\n```", id="a fence"),
        pytest.param("Approved ~~for release~~", id="struck words"),
        pytest.param("Approved <del>fully</del>", id="deleted words"),
    ],
)
def test_an_approval_with_something_unread_beside_it_is_asked_for_again(text: str) -> None:
    assert read_verdict(text).decision == "unclear"


@pytest.mark.parametrize("text", ["Approved ✅", "LGTM 👍", "🎉 Approved!", "Approved 🚀🚀"])
def test_a_friendly_picture_takes_nothing_back(text: str) -> None:
    assert read_verdict(text).approved


@given(
    opening=st.sampled_from(["The instruction was to write", "I was told to say", "They said"]),
    word=st.sampled_from(["APPROVED", "LGTM", "looks good", "accepted", "passes all criteria"]),
)
def test_quotations_never_approve(opening: str, word: str) -> None:
    assert not read_verdict(f'{opening} "{word}".').approved
    assert not read_verdict(f"{opening} {word}.").approved


@given(
    requirements=st.booleans(),
    quality=st.booleans(),
    severities=st.lists(
        st.sampled_from(["critical", "blocker", "major", "high", "important", "minor", "low", "?"])
    ),
)
def test_a_structured_verdict_approves_only_with_nothing_open(
    requirements: bool, quality: bool, severities: list[str]
) -> None:
    findings = [{"severity": one, "title": f"finding {one}"} for one in severities]
    reply = {"requirements_met": requirements, "quality_pass": quality, "findings": findings}
    verdict = read_verdict(json.dumps(reply))
    # A word that nobody agreed on may mean a blocker.
    stands = {"critical", "blocker", "major", "high", "important", "?"} & set(severities)
    assert verdict.structured
    assert verdict.approved == (requirements and quality and not stands)
    assert len(verdict.open_findings) == sum(one in stands for one in severities)


def test_a_structure_that_is_cut_off_is_asked_again() -> None:
    assert read_verdict(f"APPROVED\n{YES[:-5]}").decision == "unclear"


YES = '{"requirements_met": true, "quality_pass": true, "findings": [], "rationale": "complete"}'
NO = '{"requirements_met": false, "quality_pass": true, "findings": ["No test."]}'
STRUCTURED = {
    "bare": (YES, "approved"),
    "in a fence": (f"```json\n{YES}\n```", "approved"),
    "after words": (f"I read the change and ran the tests.\n\n{YES}", "approved"),
    "rejected": (NO, "rejected"),
    "the last one counts": (f"{YES}\nNo, that was wrong.\n{NO}", "rejected"),
    "contradicted by the words": (f"NEEDS CHANGES\n\n{YES}", "unclear"),
    "quoted from the work": (
        f"The report ends with\n\n```\n{YES}\n```\n\nI see no tests.",
        "unclear",
    ),
    "first, then an approval": (f"{YES}\n\nAPPROVED", "approved"),
    "first, then words": (f"{YES}\n\nThe tests are thorough.", "unclear"),
    "first, then a doubt": (f"{YES}\n\nWait: it deletes the user's data.", "unclear"),
    "beside a no": (YES.replace("{", '{"approved": false, '), "unclear"),
    "beside a rejection": (YES.replace("{", '{"verdict": "rejected", '), "unclear"),
    "beside a state": (YES.replace("{", '{"status": "needs_changes", '), "unclear"),
    "beside a demand": (YES.replace("{", '{"recommendation": "Do not merge.", '), "unclear"),
    "beside a yes": (YES.replace("{", '{"verdict": "approved", "status": "ok", '), "approved"),
    "a reason that rejects": (YES.replace("complete", "Needs changes: no tests."), "unclear"),
    "in the middle, with a word": (f"I ran it.\n{YES}\nAPPROVED", "approved"),
    "yes as text": (YES.replace("true", '"yes"'), "unclear"),
    "one as number": (YES.replace("true", "1"), "unclear"),
    "half of it": ('{"requirements_met": true}', "unclear"),
    "null": (YES.replace("true", "null"), "unclear"),
    "nested": (f'{{"verdict": {YES}}}', "approved"),
    "in a list": (f"[{YES}]", "approved"),
    "more fields": (YES.replace("{", '{"confidence": 0.9, '), "approved"),
    "without a rationale": ('{"requirements_met": true, "quality_pass": true}', "approved"),
    "null findings": (YES.replace("[]", "null"), "approved"),
}


@pytest.mark.parametrize(("text", "expected"), STRUCTURED.values(), ids=STRUCTURED)
def test_structured_verdicts(text: str, expected: str) -> None:
    verdict = read_verdict(text)
    assert verdict.decision == expected
    assert bool(verdict.problems) == (expected == "unclear")


def test_findings_keep_what_the_reviewer_said() -> None:
    reply = {
        "requirements_met": False,
        "quality_pass": True,
        "findings": [
            {"severity": "critical", "title": "No lock", "fix": "Take one.", "location": "a.py:3"},
            {"severity": "minor", "detail": "A long name."},
            {},
        ],
        "rationale": "It races.",
    }
    verdict = read_verdict(json.dumps(reply))
    assert verdict.rationale == "It races."
    assert [(one.id, one.severity, one.title) for one in verdict.findings] == [
        ("V1", "blocker", "No lock"),
        ("V2", "suggestion", "A long name."),
    ]
    assert verdict.open_findings == verdict.findings[:1]
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict


def test_the_schema_asks_for_what_is_read() -> None:
    properties = verdict_schema()["properties"]
    assert isinstance(properties, dict)
    assert set(properties) == set(RoleVerdict.model_fields)
