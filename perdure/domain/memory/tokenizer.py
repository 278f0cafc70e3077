"""Splits text into search terms, the same way for every store."""

import re
import unicodedata
from typing import assert_never

from perdure.domain.memory.entries import Episode, Event, Learning, MemoryEntry, Pattern, Skill

TERM_CHARACTERS = 40
TERMS_ASKED = 300

_CJK = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"
# A character of a script without spaces is a word; elsewhere words are runs of letters and digits.
_WORD = re.compile(rf"[{_CJK}]|(?:(?![{_CJK}])[^\W_])+")
_APOSTROPHES = re.compile(r"(?<=\w)['\u2019](?=\w)")
# Without their apostrophes, as `words` leaves them. None is a stop word: each turns a lesson into
# its opposite.
_NEGATIONS = """
    not no never dont doesnt didnt isnt arent wasnt werent cant cannot wont shouldnt without avoid
"""
# Terms are stored with each entry: after a change here, or in `words`, older entries keep those
# that they have, and are no longer found by the same questions.
_STOP_WORDS = """
    a an and are as at be been but by can could did do does for from had has have how i if in into
    is it its may of on or our please shall should so such than that the their them then there
    these they this to was we were what when where which while who will with would you your
"""
NEGATIONS = frozenset(_NEGATIONS.split())
STOP_WORDS = frozenset(_STOP_WORDS.split())
_SINGULAR_FROM = 4
# As in `glass`, `status` and `analysis`.
_NO_PLURALS = ("ss", "us", "is")


def words(text: str) -> list[str]:
    """All words in order: folded to lower case, without accents, plurals in s as singulars."""
    plain = unicodedata.normalize("NFKD", _APOSTROPHES.sub("", text)).casefold()
    marks = "".join(mark for mark in plain if not unicodedata.combining(mark))
    # Composed again: NFKD takes Korean syllables apart as well, and each of them is a word.
    joined = unicodedata.normalize("NFC", marks)
    return [_singular(word)[:TERM_CHARACTERS] for word in _WORD.findall(joined)]


def terms(text: str) -> list[str]:
    """The words that tell texts apart: without articles, prepositions and the like."""
    return [word for word in words(text) if word not in STOP_WORDS]


def searchable(entry: MemoryEntry) -> str:
    """The text that an entry is found by; empty for what is never looked for."""
    match entry:
        case Learning():
            parts = (entry.text,)
        case Episode():
            parts = (entry.goal, entry.text)
        case Skill():
            parts = (entry.name, entry.purpose, *entry.categories, entry.text)
        case Pattern():
            parts = (entry.text, *entry.subject)
        case Event():
            return ""
        case _:
            assert_never(entry)
    return "\n".join((*parts, entry.category or ""))


def question_terms(goal: str, category: str | None) -> tuple[str, ...]:
    """The terms that a task asks memory about, each once: its category's, then the goal's first."""
    # The category first: the limit must cut words of a long goal.
    return tuple(dict.fromkeys(terms(f"{category or ''}\n{goal}")))[:TERMS_ASKED]


def overlap(first: str, second: str) -> float:
    """The share of words that two texts have in common (Jaccard), between 0 and 1."""
    one, other = set(words(first)), set(words(second))
    return len(one & other) / len(one | other) if one or other else 1.0


def _singular(word: str) -> str:
    if len(word) < _SINGULAR_FROM or word in STOP_WORDS or word.endswith(_NO_PLURALS):
        return word
    return word.removesuffix("s")
