"""Habits in what an installation is asked to do: categories, hours and pairs that come back.

A pattern is a proposal to a person and nothing else: it enters runs only as a skill that somebody
approved.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from pydantic import AwareDatetime

from perdure.domain.evaluation.trajectory import rounded
from perdure.domain.foundation.base import ActivityMessage, FrozenModel, WorkflowInput
from perdure.domain.memory.entries import Event, Origin, Pattern, PatternSort
from perdure.domain.memory.rule_lessons import entry_id

SEEN_FROM = 3
HOUR_SHARE = 0.3
PAIR_WITHIN = timedelta(hours=2)
PROPOSED_FROM = 0.7
ORIGINS_KEPT = 20


class MiningInput(FrozenModel, WorkflowInput):
    """Input of the scheduled workflow `PatternMining`: where its step runs."""

    queue: str
    timeout_s: float = 60.0


class MineRequest(ActivityMessage):
    """Look at all events that memory holds."""

    now: AwareDatetime


class MineReport(ActivityMessage):
    """How many events were looked at, patterns found and newly proposed, faded entries dropped."""

    events: int = 0
    found: int = 0
    proposed: int = 0
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One ended run as mining sees it."""

    run: Origin
    category: str
    at: datetime

    @property
    def accepted(self) -> bool:
        """Whether the run met its definition of done."""
        return self.run.outcome == "accepted"


def occurrences(events: Sequence[Event]) -> tuple[Occurrence, ...]:
    """The ended runs that have a category, oldest first, each once; case tells none apart."""
    found: dict[str, Occurrence] = {}
    for event in events:
        category = (event.category or "").strip().casefold()
        if event.type == "run_ended" and category and event.origins:
            origin = event.origins[0]
            found[origin.run] = Occurrence(origin, category, event.created)
    return tuple(sorted(found.values(), key=lambda item: (item.at, item.run.run)))


def mined(events: Sequence[Event], *, now: datetime) -> tuple[Pattern, ...]:
    """Every pattern in the events, the most certain first; hours are UTC."""
    seen = occurrences(events)
    found = [*_categories(seen, now), *_hours(seen, now), *_pairs(seen, now)]
    return tuple(sorted(found, key=lambda item: (-item.confidence, item.sort, item.subject)))


def proposable(pattern: Pattern) -> bool:
    """Whether a pattern is certain enough to be put to a person."""
    return pattern.confidence >= PROPOSED_FROM


def certainty(seen: int, accepted: int) -> float:
    """How sure a pattern is: it grows with what was seen, and with the share that was accepted."""
    if seen == 0:
        return 0.0
    return rounded(seen / (seen + 1) * (0.5 + 0.5 * accepted / seen))


def _categories(seen: Sequence[Occurrence], now: datetime) -> Iterator[Pattern]:
    for category, items in _by_category(seen).items():
        if len(items) >= SEEN_FROM:
            text = f"“{category}” came up {len(items)} times."
            yield _pattern("category", (category,), items, text=text, now=now)


def _hours(seen: Sequence[Occurrence], now: datetime) -> Iterator[Pattern]:
    """An hour of the day that has over 30 % of a category, and at least three of it."""
    for category, items in _by_category(seen).items():
        for hour, count in sorted(Counter(item.at.hour for item in items).items()):
            if count < SEEN_FROM or count <= HOUR_SHARE * len(items):
                continue
            named = f"{hour:02d}:00 UTC"
            text = f"{count} of {len(items)} runs of “{category}” began in the hour from {named}."
            within = [item for item in items if item.at.hour == hour]
            yield _pattern("hour", (category, named), within, text=text, now=now)


def _pairs(seen: Sequence[Occurrence], now: datetime) -> Iterator[Pattern]:
    """Two categories that follow each other directly, within two hours, three times or more."""
    followed: dict[tuple[str, str], list[Occurrence]] = defaultdict(list)
    for first, second in pairwise(seen):
        near = second.at - first.at <= PAIR_WITHIN
        if near and first.category != second.category:
            followed[first.category, second.category].append(second)
    for (first, second), items in followed.items():
        if len(items) >= SEEN_FROM:
            text = f"“{second}” followed “{first}” {len(items)} times."
            yield _pattern("pair", (first, second), items, text=text, now=now)


def _by_category(seen: Sequence[Occurrence]) -> Mapping[str, list[Occurrence]]:
    grouped: dict[str, list[Occurrence]] = defaultdict(list)
    for item in seen:
        grouped[item.category].append(item)
    return grouped


def _pattern(
    sort: PatternSort,
    subject: tuple[str, ...],
    items: Sequence[Occurrence],
    *,
    text: str,
    now: datetime,
) -> Pattern:
    accepted = sum(item.accepted for item in items)
    return Pattern(
        kind="pattern",
        id=entry_id("pattern", sort, *subject),
        sort=sort,
        subject=subject,
        category=subject[-1] if sort == "pair" else subject[0],
        text=f"{text} {accepted} of them {'was' if accepted == 1 else 'were'} accepted.",
        confidence=certainty(len(items), accepted),
        seen=len(items),
        created=now,
        origins=tuple(item.run for item in items[-ORIGINS_KEPT:]),
    )
