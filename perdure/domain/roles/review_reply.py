"""The verdict of a review: structured, or read from plain text; doubt is never an approval.

A model's output is data: what says both that the work passes and that something important is
open, or that the text around it rejects the work, approves nothing.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from perdure.domain.evaluation.scores import Finding, Severity, known_severity
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.json_extraction import Found
from perdure.domain.llm.structured_replies import (
    BadReply,
    Fields,
    denials,
    flaw,
    object_schema,
    objects_with,
    shaped,
    unexpected_fields,
)
from perdure.domain.memory.tokenizer import terms
from perdure.domain.roles.review_reply_text import Reading, read_review, read_words
from perdure.domain.roles.stage_reply import EmbeddedObject, embedded
from perdure.domain.roles.state import Review

DIMENSION = "review"
_NAMES = ("requirements_met", "quality_pass")
_RATIONALE_CHARACTERS = 2_000

Text = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]


class _Given(BaseModel):
    # Extra fields in a model's reply do no harm.
    model_config = ConfigDict(frozen=True, extra="ignore")


class GivenFinding(_Given):
    """One defect as the reviewer named it; all but the title may be left out."""

    severity: Text = "suggestion"
    title: Text = ""
    detail: Text = ""
    fix: Text = ""
    location: Text = ""


def _listed(value: object) -> object:
    return () if value is None else value


def _as_finding(value: object) -> object:
    # A bare text has no place for a severity, so it stands against an approval.
    return {"title": value, "severity": "important"} if isinstance(value, str) else value


class RoleVerdict(_Given):
    """The shape that a gate stage is asked for."""

    # Strict: a text such as “yes” is asked about, never taken for an approval.
    requirements_met: bool = Field(strict=True)
    quality_pass: bool = Field(strict=True)
    findings: Annotated[
        tuple[Annotated[GivenFinding, BeforeValidator(_as_finding)], ...], BeforeValidator(_listed)
    ] = ()
    rationale: Text = ""


class Verdict(FrozenModel):
    """The verdict of a review.

    Args:
        decision: what counts; an unclear one is asked again, once, then counted as unclear.
        findings: what is open, numbered within the verdict (`V1`, `V2`, …).
        rationale: why, in the reviewer's words.
        structured: it came in the shape that was asked for.
        problems: why a structured reply could not be used, for the second question.
    """

    decision: Reading
    findings: tuple[Finding, ...] = ()
    rationale: str = ""
    structured: bool = False
    problems: tuple[str, ...] = ()

    @property
    def approved(self) -> bool:
        """Whether it approves; nothing else does."""
        return self.decision == "approved"

    @property
    def open_findings(self) -> tuple[Finding, ...]:
        """Those that stand against an approval."""
        return tuple(one for one in self.findings if one.severity != "suggestion")


def read_verdict(text: str) -> Verdict:
    """The verdict in a reviewer's whole reply: structured where it is, else as the text reads."""
    found = objects_with(text, *_NAMES)
    if not found:
        return Verdict(decision=read_words(text))
    verdicts = [_structured(one) for one in found]
    # The last counts, as a reviewer corrects itself further down.
    last = verdicts[-1]
    if not last.approved:
        return last
    if not all(one.approved for one in verdicts):
        problem = "The reply holds an approval and a verdict that does not approve."
        return last.model_copy(update={"decision": "unclear", "problems": (problem,)})
    return _in_its_place(last, embedded(text, found[-1]))


def verdict_schema() -> dict[str, JsonValue]:
    """The JSON schema of a structured verdict, for the model that is asked."""
    texts: dict[str, JsonValue] = {"type": "string"}
    flag: dict[str, JsonValue] = {"type": "boolean"}
    severities: dict[str, JsonValue] = {"enum": ["blocker", "important", "suggestion"]}
    finding = object_schema(
        {"severity": severities, "title": texts, "detail": texts, "fix": texts, "location": texts},
        *("severity", "title", "fix"),
    )
    fields: dict[str, JsonValue] = {
        "requirements_met": flag,
        "quality_pass": flag,
        "findings": {"type": "array", "items": finding},
        "rationale": texts,
    }
    return object_schema(fields, *fields)


def _structured(found: Found) -> Verdict:
    """The verdict of an object, unclear with the problems of one that cannot be used."""
    if problem := flaw(found):
        return Verdict(decision="unclear", problems=(problem,))
    given = shaped(found.fields, RoleVerdict)
    if isinstance(given, BadReply):
        return Verdict(decision="unclear", problems=given.problems)
    findings = _numbered(given.findings)
    is_open = any(finding.severity != "suggestion" for finding in findings)
    passes = given.requirements_met and given.quality_pass and not is_open
    decision: Literal["approved", "rejected"] = "approved" if passes else "rejected"
    rationale = given.rationale.strip()[:_RATIONALE_CHARACTERS]
    verdict = Verdict(decision=decision, findings=findings, rationale=rationale, structured=True)
    problems = (*_surplus(found.fields), *_severity_problems(given.findings))
    if read_review(given.rationale) == "rejected":
        problems = (*problems, "The rationale rejects what the reply approves.")
    # Flaws of form spoil an approval alone: a rejection is believed as it stands.
    if not problems or not (given.requirements_met and given.quality_pass):
        return verdict
    return verdict.model_copy(update={"decision": "unclear", "problems": problems})


def _surplus(fields: Fields) -> tuple[str, ...]:
    allowed = tuple(RoleVerdict.model_fields)
    names = dict.fromkeys([*unexpected_fields(fields, allowed), *denials(fields, allowed)])
    return tuple(
        f"Nobody asked for the field {name!r}; allowed: {', '.join(allowed)}." for name in names
    )


def _severity_problems(findings: Sequence[GivenFinding]) -> tuple[str, ...]:
    words = [one.severity for one in findings if one.severity.strip()]
    return tuple(
        f"severity: found {word[:40]!r}; allowed: blocker, important, suggestion."
        for word in words
        if known_severity(word) is None
    )


def _in_its_place(verdict: Verdict, found: EmbeddedObject) -> Verdict:
    """An approval counts where a reply ends with it, and its words do not reject.

    Elsewhere it may be a quotation, of the form or of what the work says about itself; and what
    follows an approval may take it back.
    """
    if not verdict.approved:
        return verdict
    said = read_review(found.around)
    if said == "approved" or (said == "unclear" and found.ends_reply):
        return verdict
    why = "rejects what it approves" if said == "rejected" else "goes on after it"
    problems = (f"The text around the structured verdict {why}.",)
    return verdict.model_copy(update={"decision": "unclear", "problems": problems})


def _numbered(given: Sequence[GivenFinding]) -> tuple[Finding, ...]:
    named = [(item, _words(item)) for item in given]
    return tuple(
        Finding(
            id=f"V{number}",
            severity=_severity(item.severity),
            dimension=DIMENSION,
            title=title,
            detail=item.detail,
            fix=item.fix,
            location=item.location,
        )
        for number, (item, title) in enumerate(((i, t) for i, t in named if t), start=1)
    )


def _words(item: GivenFinding) -> str:
    """What a finding says; one that only says how bad it is still stands."""
    said = item.title or item.detail or item.fix or item.location
    return said or ("" if _severity(item.severity) == "suggestion" else "a finding without words")


def _severity(word: str) -> Severity:
    """The severity of a word; an unknown word may mean a blocker, so it prevents approval."""
    return known_severity(word) or ("important" if word.strip() else "suggestion")


FINDINGS_KEPT = 12
TITLE_CHARACTERS = 160
DETAIL_CHARACTERS = 400
TOPIC_WORDS = 12
# A rejection in plain text counts as one finding of this length.
TEXT_CHARACTERS = 600
# Of the shorter title's words: reviewers word the same finding anew in each round.
SAME_SHARE = 0.6


def review_of(verdict: Verdict, text: str) -> Review:
    """The short form of a verdict for the state; the stage's text has the full one."""
    against = verdict.open_findings
    topics = [topic(finding.title) for finding in against] or [topic(text[:TEXT_CHARACTERS])]
    return Review(
        word=verdict.decision,
        rationale=verdict.rationale[:DETAIL_CHARACTERS],
        findings=tuple(_short(finding) for finding in against[:FINDINGS_KEPT]),
        topics=tuple(one for one in topics[:FINDINGS_KEPT] if one),
        open=len(against),
        listed=bool(against),
    )


def verdict_line(verdict: Verdict) -> str:
    """A verdict in one line: its word, and why, in the reviewer's words where there are any."""
    named = "; ".join(finding.title for finding in verdict.open_findings)
    unread = "; ".join(verdict.problems)
    why = " ".join((verdict.rationale or named or unread).split())
    return f"{verdict.decision}: {why}" if why else verdict.decision


def topic(text: str) -> str:
    """The words that tell a finding apart, however it is put."""
    return " ".join(sorted(set(terms(text)))[: TOPIC_WORDS * 4])


def came_back(before: Sequence[str], now: Sequence[str]) -> tuple[str, ...]:
    """The findings of the newest rejection that an earlier one named too."""
    return tuple(one for one in now if any(_same(one, other) for other in before))


def _same(left: str, right: str) -> bool:
    first, second = set(left.split()), set(right.split())
    shared = len(first & second)
    # `shared` first: an empty title has no words to divide by.
    return shared > 0 and shared / min(len(first), len(second)) >= SAME_SHARE


def _short(finding: Finding) -> Finding:
    return finding.model_copy(
        update={
            "title": finding.title[:TITLE_CHARACTERS],
            "detail": finding.detail[:DETAIL_CHARACTERS],
            "fix": finding.fix[:DETAIL_CHARACTERS],
            "location": finding.location[:TITLE_CHARACTERS],
        }
    )
