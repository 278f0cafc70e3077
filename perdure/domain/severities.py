"""How bad a finding is, in the words that models use for it."""

from typing import Literal

Severity = Literal["blocker", "important", "suggestion"]

_WORDS: dict[Severity, str] = {
    "blocker": "blocker blocking critical fatal severe showstopper",
    "important": "important major high serious significant error must",
    "suggestion": "suggestion suggested minor low medium moderate nit nitpick trivial cosmetic"
    " optional info note",
}
_SEVERITIES: dict[str, Severity] = {
    word: severity for severity, words in _WORDS.items() for word in words.split()
}
SEVERITY_WORDS = frozenset(_SEVERITIES)
GRAVE_WORDS = frozenset(word for word, severity in _SEVERITIES.items() if severity == "blocker")


def known_severity(word: str) -> Severity | None:
    """The severity that a word means; None for a word that nobody agreed on."""
    return _SEVERITIES.get(word.strip().strip("[]()*:.").casefold())


def severity_of(word: str) -> Severity:
    """The same, where nobody can be asked again: unknown ones are suggestions."""
    return known_severity(word) or "suggestion"
