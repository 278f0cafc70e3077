"""When two entries say the same, and how they are merged.

Merging an entry twice changes nothing, so a retried step writes nothing twice.
"""

from itertools import islice

from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.memory.entries import (
    Episode,
    Event,
    Learning,
    MemoryEntry,
    OldText,
    Origin,
    Pattern,
    Skill,
    may_enter,
)
from perdure.domain.memory.store import Corpus
from perdure.domain.memory.tokenizer import NEGATIONS, overlap, terms, words

SAME_ABOVE = 0.8
REINFORCEMENT = 0.25
LEARNED_AT_MOST = 0.95
ORIGINS_KEPT = 20
VERSIONS_KEPT = 5


def same_lesson(one: MemoryEntry, other: MemoryEntry) -> bool:
    """Whether two learnings are near-duplicates: of one sort, with over 0.8 of words in common.

    Negations and figures must agree: "retry 3 times" and "never retry 5 times" share most words.
    """
    return (
        isinstance(one, Learning)
        and isinstance(other, Learning)
        and one.sort == other.sort
        and overlap(one.text, other.text) > SAME_ABOVE
        and _turning_words(one.text) == _turning_words(other.text)
    )


def telltale_terms(text: str, corpus: Corpus) -> tuple[str, ...]:
    """The fewest terms of which every near-duplicate of a text holds one at least.

    A near-duplicate lacks less than a fifth of the text's words, so it holds one of any larger
    set of them; the rarest ones bring the fewest others along.
    """
    held = sorted(set(terms(text)), key=lambda term: (corpus.holders.get(term, 0), term))
    enough = int((1 - SAME_ABOVE) * len(set(words(text)))) + 1
    # Cut before the filter: terms that nobody holds are among the fewest that suffice, and cost
    # nothing.
    return tuple(term for term in held[:enough] if corpus.holders.get(term))


def merged(known: MemoryEntry, incoming: MemoryEntry) -> MemoryEntry:
    """Merge `incoming` into the entry that it repeats.

    Raises:
        NotAllowed: a run's skill meets the skill of a person.
        InvalidInput: the two are of different kinds.
    """
    match known, incoming:
        case Learning(), Learning():
            return reinforced(known, incoming)
        case Skill(), Skill():
            return _next_version(known, incoming)
        case Pattern(), Pattern():
            # What a person decided stands, whenever the habit is found again.
            return incoming.model_copy(update={**_counts(known), "state": known.state})
        case (Episode(), Episode()) | (Event(), Event()):
            return incoming.model_copy(update=_counts(known))
        case _:
            raise InvalidInput(
                f"Memory holds a {known.kind} under the id {known.id}, not a {incoming.kind}.",
                cure=f"Forget it (perdure memory forget {known.id}) or use another id.",
            )


def reinforced(known: Learning, incoming: Learning) -> Learning:
    """A learning that another run came to as well.

    Confidence closes a quarter of its gap to 1 from the higher of both, up to 0.95: a run that is
    counted already adds nothing. The text is the one that may enter other runs.
    """
    new = tuple(origin for origin in incoming.origins if origin not in known.origins)
    # The same run with another outcome, as after a retry, is no second witness.
    if not new or {origin.run for origin in new} <= {origin.run for origin in known.origins}:
        return known.model_copy(update={"origins": _updated(known.origins, incoming.origins)})
    text = incoming.text if may_enter(incoming) and not may_enter(known) else known.text
    # What nobody used stays so: confidence fades from the last use on, and would begin to here.
    used = known.last_used and max(known.last_used, incoming.created)
    # From the higher of both: an uncertain repeat never weakens what is known.
    high = max(known.confidence, incoming.confidence)
    return known.model_copy(
        update={
            "text": text,
            # What runs of two categories found holds beyond either.
            "category": known.category if known.category == incoming.category else None,
            # `max`: what a person is sure of is above what learning reaches, and must not fall to
            # it.
            "confidence": max(
                high, round(min(LEARNED_AT_MOST, high + (1 - high) * REINFORCEMENT), 4)
            ),
            "last_used": used,
            "origins": _updated(known.origins, incoming.origins),
        }
    )


def _updated(known: tuple[Origin, ...], incoming: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """Each run once with its latest outcome; of many the first ones and the newest ones."""
    outcomes = {origin.run: origin for origin in (*known, *incoming)}
    origins = tuple(outcomes.values())
    if len(origins) <= ORIGINS_KEPT:
        return origins
    # The first accepted run as well: without one the entry would no longer enter other runs.
    accepted = (origin for origin in origins if origin.outcome == "accepted")
    first = tuple(dict.fromkeys((origins[0], *islice(accepted, 1))))
    newest = [origin for origin in origins if origin not in first]
    return (*first, *newest[len(first) - ORIGINS_KEPT :])


def _next_version(known: Skill, incoming: Skill) -> Skill:
    if incoming.origins and not known.origins:
        raise NotAllowed(
            f"The skill {known.name} was written by a person; a run may not replace it.",
            cure="Save the run's skill under another name.",
        )
    kept = {
        **_counts(known),
        "id": known.id,
        "effectiveness": known.effectiveness,
        "judged": known.judged,
    }
    same = incoming.model_copy(update={**kept, "version": known.version, "earlier": known.earlier})
    # Only its source is new: the same text put again, as by a repeated step, is no version.
    if same == known.model_copy(update={"source": same.source}):
        return known
    before = OldText(version=known.version, text=known.text, source=known.source)
    earlier = (*known.earlier, before)[-VERSIONS_KEPT:]
    return same.model_copy(update={"version": known.version + 1, "earlier": earlier})


def _counts(known: MemoryEntry) -> dict[str, object]:
    """What an entry has gathered, which its new text keeps."""
    return {
        "uses": known.uses,
        "successes": known.successes,
        "created": known.created,
        "last_used": known.last_used,
    }


def _turning_words(text: str) -> frozenset[str]:
    return frozenset(
        word for word in words(text) if word in NEGATIONS or any(map(str.isdigit, word))
    )
