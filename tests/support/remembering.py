"""Entries of memory for tests: plain ones to change, and strategies for any."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from perdure.domain.memory.entries import Episode, Learning, MemoryEntry, Origin, Skill
from perdure.domain.memory.store import Candidates, Corpus
from perdure.domain.memory.tokenizer import searchable, terms

START = datetime(2026, 1, 2, tzinfo=UTC)
RUN = Origin(run="refine-a", outcome="accepted")
WORDS = "rate limit window address token cache retry queue never 3 7 the für 日本 tests"
VOCABULARY = tuple(WORDS.split())


def learning(name: str = "l", text: str = "known", /, **changes: object) -> Learning:
    """A fact that an accepted run wrote."""
    plain = Learning(
        kind="learning",
        id=name,
        sort="fact",
        text=text,
        confidence=0.5,
        created=START,
        origins=(RUN,),
    )
    return plain.model_copy(update=changes)


def avoid(name: str = "a", text: str = "known", /, **changes: object) -> Learning:
    """An anti-pattern that an accepted run wrote."""
    return learning(name, text, **{"sort": "anti_pattern", **changes})


def episode(name: str = "e", goal: str = "known", /, **changes: object) -> Episode:
    """An accepted run."""
    plain = Episode(
        kind="episode",
        id=name,
        goal=goal,
        outcome="accepted",
        best_score=0.91,
        text="small steps",
        created=START,
        origins=(RUN,),
    )
    return plain.model_copy(update=changes)


def skill(name: str = "s", /, **changes: object) -> Skill:
    """A skill that a person wrote."""
    plain = Skill(kind="skill", id=f"skill-{name.lower()}", name=name, created=START)
    return plain.model_copy(update=changes)


def candidates(*entries: MemoryEntry) -> Candidates:
    """Candidates with the counts that a store which holds just them would give."""
    texts = [terms(searchable(entry)) for entry in entries]
    everything = {term for text in texts for term in text}
    holders = {term: sum(term in text for text in texts) for term in everything}
    length = sum(map(len, texts))
    return Candidates(
        entries=entries,
        corpus=Corpus(
            entries=len(entries),
            mean_terms=length / len(entries) if entries else 0.0,
            holders=holders,
        ),
    )


def texts(*, most: int = 12) -> st.SearchStrategy[str]:
    """Sentences of few words, so that they meet."""
    return st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=most).map(" ".join)


def moments() -> st.SearchStrategy[datetime]:
    """Times within three years."""
    return st.integers(0, 3 * 365 * 24).map(lambda hours: START + timedelta(hours=hours))


def origins() -> st.SearchStrategy[tuple[Origin, ...]]:
    """Runs that ended well or not; none stands for a person."""
    one = st.builds(
        Origin,
        run=st.sampled_from(["r1", "r2", "r3"]),
        outcome=st.sampled_from(["accepted", "regressed"]),
    )
    return st.lists(one, max_size=3, unique_by=lambda origin: origin.run).map(tuple)


def learnings() -> st.SearchStrategy[Learning]:
    """Any learning."""
    return st.builds(
        Learning,
        kind=st.just("learning"),
        id=st.text("abcdef", min_size=1, max_size=6),
        sort=st.sampled_from(["fact", "heuristic", "anti_pattern"]),
        category=st.sampled_from([None, "code", "mail"]),
        text=texts(),
        confidence=st.floats(0, 1),
        uses=st.integers(0, 30),
        created=moments(),
        last_used=st.none() | moments(),
        origins=origins(),
    )


def corpora() -> st.SearchStrategy[list[MemoryEntry]]:
    """Learnings and episodes with different ids."""
    other = st.builds(episode, st.text("ghij", min_size=1, max_size=6), texts(), origins=origins())
    return st.lists(learnings() | other, max_size=12, unique_by=lambda entry: entry.id)
