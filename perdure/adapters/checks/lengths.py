"""Lengths of a text in characters, words, lines and sentences."""

import re

from perdure.domain.checks import LengthUnit

# A sentence ends at a full stop and the like when space or the end follows, so 3.5 is one number.
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]+[\"'”’)\]]*(?=\s|$)|[。！？]+")
_HAS_WORD = re.compile(r"\w")


def length_of(text: str, unit: LengthUnit) -> int:
    """The length of `text`; words hold a letter or digit, blank lines do not count."""
    match unit:
        case "chars":
            return len(text)
        case "words":
            return sum(1 for word in text.split() if _HAS_WORD.search(word))
        case "lines":
            return sum(1 for line in text.splitlines() if line.strip())
        case "sentences":
            return sum(1 for piece in _SENTENCE_END.split(text) if _HAS_WORD.search(piece))
