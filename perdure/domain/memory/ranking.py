"""The order of what memory offers: BM25 over counts of terms × confidence left × recency.

The counts are handed in, so the order does not depend on which store found the candidates.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from perdure.domain.memory.entries import Learning, MemoryEntry, Remembered
from perdure.domain.memory.store import Candidates, Corpus
from perdure.domain.memory.tokenizer import searchable, terms

FADING_PER_WEEK = 0.05
FORGOTTEN_BELOW = 0.1
HALF_AS_RECENT_WEEKS = 26.0

_WEEK = timedelta(weeks=1)


def confidence_left(entry: Remembered, now: datetime) -> float:
    """Original × e^(−0.05 × idle weeks); an entry that nobody has used keeps its own."""
    # Computed, never written, so that decay cannot compound.
    if entry.last_used is None:
        return entry.confidence
    return entry.confidence * math.exp(-FADING_PER_WEEK * _weeks(entry.last_used, now))


def is_faded(entry: Remembered, now: datetime) -> bool:
    """Whether too little confidence is left for the entry to be shown."""
    return confidence_left(entry, now) < FORGOTTEN_BELOW


def fades_at(entry: Remembered) -> datetime | None:
    """When the entry will have faded, or None while it does not fade."""
    if entry.confidence < FORGOTTEN_BELOW:
        # It has faded from the start, used or not.
        return entry.created
    if entry.last_used is None:
        return None
    weeks = math.log(entry.confidence / FORGOTTEN_BELOW) / FADING_PER_WEEK
    return entry.last_used + timedelta(weeks=weeks)


def recency(entry: Remembered, now: datetime) -> float:
    """1 for what was made or used just now, a half after half a year, never 0."""
    touched = max(entry.created, entry.last_used or entry.created)
    return 1 / (1 + _weeks(touched, now) / HALF_AS_RECENT_WEEKS)


def _weeks(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since) / _WEEK)


SATURATION = 1.2
LENGTH_WEIGHT = 0.75
DECIMALS = 9


@dataclass(frozen=True, slots=True)
class Ranked:
    """An entry with its relevance to the question and with what it is ordered by."""

    entry: MemoryEntry
    relevance: float
    score: float


def rank(asked: Sequence[str], found: Candidates, *, now: datetime) -> tuple[Ranked, ...]:
    """The candidates that share a term with the question, best first, anti-patterns before all."""
    rated = [_rated(asked, entry, corpus=found.corpus, now=now) for entry in found.entries]
    return tuple(sorted((item for item in rated if item.relevance > 0), key=_place))


def relevance(asked: Sequence[str], text: Sequence[str], corpus: Corpus) -> float:
    """BM25 of a text, given as terms, to the terms of a question."""
    counts = Counter(text)
    mean = corpus.mean_terms or 1.0
    length = SATURATION * (1 - LENGTH_WEIGHT + LENGTH_WEIGHT * len(text) / mean)
    # Sorted, because sums of floats depend on their order.
    shared = sorted(set(asked) & counts.keys())
    return sum(
        _rarity(corpus, term) * counts[term] * (SATURATION + 1) / (counts[term] + length)
        for term in shared
    )


def selective(asked: Sequence[str], corpus: Corpus, *, limit: int) -> tuple[str, ...]:
    """The rarest terms of a question that about `limit` entries hold together; one at least."""
    # The rarest first: a cut through thousands of entries that share a common word is arbitrary.
    known = [term for term in dict.fromkeys(asked) if corpus.holders.get(term)]
    chosen: list[str] = []
    held = 0
    for term in sorted(known, key=lambda term: (corpus.holders[term], term)):
        held += corpus.holders[term]
        if chosen and held > limit:
            break
        chosen.append(term)
    return tuple(chosen)


def _rated(asked: Sequence[str], entry: MemoryEntry, *, corpus: Corpus, now: datetime) -> Ranked:
    fits = round(relevance(asked, terms(searchable(entry)), corpus), DECIMALS)
    score = round(fits * confidence_left(entry, now) * recency(entry, now), DECIMALS)
    return Ranked(entry, fits, score)


def _place(item: Ranked) -> tuple[bool, float, float, str]:
    avoid = isinstance(item.entry, Learning) and item.entry.sort == "anti_pattern"
    # The id last, so that the order is total, in whatever order a store gives the candidates.
    return (not avoid, -item.score, -item.relevance, item.entry.id)


def _rarity(corpus: Corpus, term: str) -> float:
    holders = corpus.holders.get(term, 0)
    return math.log1p(max(0.0, corpus.entries - holders + 0.5) / (holders + 0.5))
