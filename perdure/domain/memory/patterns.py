"""Habits in what an installation is asked to do, and how such a pattern becomes a skill.

A pattern is a proposal to a person and nothing else: it enters runs only as a skill that somebody
approved.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from pydantic import AwareDatetime

from perdure.domain.evaluation.trajectory import rounded
from perdure.domain.foundation.base import ActivityMessage, FrozenModel, WorkflowInput
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.memory.entries import (
    Episode,
    Event,
    Origin,
    Pattern,
    PatternSort,
    Skill,
    may_enter,
)
from perdure.domain.memory.rule_lessons import entry_id

SEEN_FROM = 3
HOUR_SHARE = 0.3
PAIR_WITHIN = timedelta(hours=2)
# Three runs that were all accepted come to 0.75, and to 0.625 if one of them failed.
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
    # By the run too, where times are equal: pairs must not depend on the order of the store.
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
    # A share alone is not enough: a single run has all of its category in one hour.
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
        # Of what it is about alone, so that the next look finds it again, with what a person
        # decided.
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


EPISODES_TOLD = 8
GOAL_CHARACTERS = 160
NAME_CHARACTERS = 60
_BETWEEN = {"category": "", "hour": "-at-", "pair": "-then-"}
_NOT_IN_A_NAME = re.compile(r"[^\w]+")


def suggested_name(pattern: Pattern) -> str:
    """A name for the skill of a pattern, made of what the pattern is about."""
    slugs = (_NOT_IN_A_NAME.sub("-", part.casefold()).strip("-") for part in pattern.subject)
    return _BETWEEN[pattern.sort].join(slugs)[:NAME_CHARACTERS].strip("-") or pattern.id


def skill_of(
    pattern: Pattern, episodes: Iterable[Episode], *, name: str | None, by: str, now: datetime
) -> Skill:
    """The skill that a person makes of a pattern; nothing enters it but what accepted runs left.

    Raises:
        NotAllowed: no accepted run of these categories left an episode to write it from.
    """
    told = episodes_worth_telling(pattern, episodes)
    if not told:
        raise NotAllowed(
            f"No accepted run of {' or '.join(pattern.subject[:2])} says what worked.",
            cure="Write the skill yourself, and give it with --file FILE.md.",
        )
    chosen = name or suggested_name(pattern)
    accepted = sum(origin.outcome == "accepted" for origin in pattern.origins)
    return Skill(
        kind="skill",
        # Of the pattern alone, so that a repeated approval writes the same skill again.
        id=entry_id("skill", pattern.id),
        name=chosen,
        purpose=purpose_of(pattern),
        categories=categories_of(pattern),
        category=pattern.category,
        text="\n".join(_lines(chosen, pattern, told)),
        effectiveness=accepted / len(pattern.origins) if pattern.origins else 0.5,
        source=source_of(pattern, by),
        created=now,
        origins=tuple(episode.origins[0] for episode in told),
    )


def episodes_worth_telling(pattern: Pattern, episodes: Iterable[Episode]) -> Sequence[Episode]:
    """Accepted episodes of the pattern's categories, the best ones, each goal once."""
    wanted = categories_of(pattern)
    found = [
        episode
        for episode in episodes
        if (episode.category or "").strip().casefold() in wanted
        and episode.origins
        and may_enter(episode)
    ]
    found.sort(key=lambda item: (-(item.best_score or 0.0), -item.created.timestamp(), item.id))
    once: dict[tuple[str, str], Episode] = {}
    for episode in found:
        once.setdefault((episode.goal, episode.text), episode)
    return list(once.values())[:EPISODES_TOLD]


def categories_of(pattern: Pattern) -> tuple[str, ...]:
    return pattern.subject if pattern.sort == "pair" else pattern.subject[:1]


def purpose_of(pattern: Pattern) -> str:
    """One line on what the skill of a pattern is for."""
    first, *rest = pattern.subject
    match pattern.sort:
        case "category":
            return f"What worked in tasks of “{first}”"
        case "hour":
            return f"What worked in tasks of “{first}”, which come up at {rest[0]}"
        case "pair":
            return f"What worked in tasks of “{first}” and of “{rest[0]}”, which follows it"


def source_of(pattern: Pattern, by: str) -> str:
    """Where a skill comes from that a person made of a pattern."""
    return f"pattern {pattern.id}, approved by {by}"


def _lines(name: str, pattern: Pattern, told: Sequence[Episode]) -> list[str]:
    lines = [f"# {name}", "", f"{purpose_of(pattern)}. {pattern.text}", "", "## What worked", ""]
    for episode in told:
        score = "" if episode.best_score is None else f" ({episode.best_score:.2f})"
        lines.append(f"- {episode.goal[:GOAL_CHARACTERS]}{score}: {episode.text}".rstrip(": "))
    return lines
