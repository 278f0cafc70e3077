"""A verdict as the loop keeps it: short, and with what tells whether the same defects came back."""

from collections.abc import Sequence

from perdure.domain.evaluation.scores import Finding
from perdure.domain.memory.tokenizer import terms
from perdure.domain.roles.state import Review
from perdure.domain.roles.verdict import Verdict

FINDINGS_KEPT = 12
TITLE_CHARACTERS = 160
DETAIL_CHARACTERS = 400
TOPIC_WORDS = 12
TEXT_CHARACTERS = 600
SAME_SHARE = 0.6


def review_of(verdict: Verdict, text: str) -> Review:
    """The verdict as the state carries it; the whole of it stands in the stage's text."""
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
