"""Which workers become managers of workers of their own: told so, or by a score of the work."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.domain.delegation.decisions import Envelope
from perdure.domain.delegation.plan import TaskPlan

EXPLICIT = 10
THRESHOLD = 3
SEVERAL = 3
COMPLEX_TOGETHER = 2

_PREREQUISITE = re.compile(
    r"\b(?:fetch|clone|download|prepare|set ?up|setup|mkdir|copy|ingest|install)", re.IGNORECASE
)
_REAL_WORK = re.compile(r"\b(?:research|analy[sz]|synthes|iterat)", re.IGNORECASE)
_KEYWORDS = re.compile(
    r"\b(research|analy[sz]|synthes|iterat|investigat|compar|evaluat|design|architect|implement"
    r"|integrat|optimi[sz]|refactor|comprehensive|multi-?step|end-to-end)",
    re.IGNORECASE,
)
_LISTED = re.compile(r"^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]+\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Promotions:
    """The places of the envelopes that become sub-managers, and what the manager is told."""

    places: frozenset[int]
    notes: tuple[str, ...] = ()


def complexity(envelope: Envelope, plan: TaskPlan) -> int:
    """The score of one envelope by itself; a prerequisite has none, whatever its length."""
    if envelope.sub_manager is not None:
        return EXPLICIT if envelope.sub_manager else 0
    text = envelope.instructions
    if _PREREQUISITE.search(text) and not _REAL_WORK.search(text):
        return 0
    words = len(text.split())
    keywords = len({match.casefold() for match in _KEYWORDS.findall(text)})
    node = plan.node(envelope.subtask)
    return sum(
        (
            _step(words, two=80, one=40),
            _step(keywords, two=3, one=1),
            _step(len(_LISTED.findall(text)), two=3, one=2),
            envelope.priority == "high" and words >= 25,
            node is None or not node.depends_on,
        )
    )


def scores(envelopes: Sequence[Envelope], plan: TaskPlan) -> tuple[int, ...]:
    """The scores of envelopes that are delegated together: several complex ones lift each other."""
    alone = [complexity(envelope, plan) for envelope in envelopes]
    open_ones = [envelope.sub_manager is None for envelope in envelopes]
    lifted = [
        is_open and score >= COMPLEX_TOGETHER
        for is_open, score in zip(open_ones, alone, strict=True)
    ]
    bonus = 2 if sum(lifted) >= SEVERAL else 0
    return tuple(score + bonus * is_lifted for score, is_lifted in zip(alone, lifted, strict=True))


def promotions(envelopes: Sequence[Envelope], plan: TaskPlan, *, allowed: int) -> Promotions:
    """Who becomes a sub-manager: from the threshold on, best first, as many as are allowed.

    Args:
        envelopes: the work of one iteration.
        plan: where dependencies are known from.
        allowed: free places by depth, at once and in the whole tree.
    """
    rated = scores(envelopes, plan)
    wanted = sorted(
        (place for place, score in enumerate(rated) if score >= THRESHOLD),
        key=lambda place: (-rated[place], place),
    )
    most = min(max(0, allowed), len(envelopes) // 2 + 1)
    left_out = [place for place in wanted[most:] if envelopes[place].sub_manager]
    notes = tuple(
        f"{envelopes[place].worker} works alone: no further sub-manager is allowed now."
        for place in left_out
    )
    return Promotions(frozenset(wanted[:most]), notes)


def _step(count: int, *, two: int, one: int) -> int:
    return 2 if count >= two else int(count >= one)
