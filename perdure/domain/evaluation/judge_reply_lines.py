"""Reads single entries of a labelled reply: a score, a finding, what is resolved; or says why not.

Nothing is guessed: `-0.9` is no 0.9, `7/10` no 0.7, and a finding without a known place is told.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from perdure.domain.evaluation.rubric import meant_name
from perdure.domain.evaluation.scores import GRAVE_WORDS, SEVERITY_WORDS, known_severity
from perdure.domain.foundation.plain_text import clipped

SHOWN_CHARACTERS = 100
FIX = re.compile(r"\b[Ff]ix\s*:\s*")
NOTHING = re.compile(
    r"(?:|none|nothing|n/?a|[-–—]|\[\]|empty|"
    r"(?:none|no)(?: (?:new|open|further|other))*(?: (?:findings?|issues?|blockers?|defects?|"
    r"problems?|suggestions?))?(?: (?:found|so far|yet))?)\.?",
    re.IGNORECASE,
)
_MARKS = "*_`\"' "
_SEPARATOR = re.compile(r"[*`\s]*[:=][\s*`]*|[*`]*\s+[-–—]\s+|[*`]*\s+")
_NUMBER = re.compile(
    r"(?P<number>[-+−]?(?:\d+(?:\.\d+)?|\.\d+))(?P<of>\s*/\s*1(?:\.0+)?(?![\d.]))?(?P<rest>.*)",
    re.DOTALL,
)
# What may follow a score: nothing, or words behind a mark. After a fraction words alone will do.
_TAIL = re.compile(r"\s*[*`]*\s*(?:$|[(\[;:–—|]|,\s|\.(?:\s|$)|(?<=\s)-\s)", re.DOTALL)
_WORDS = re.compile(r"\s+[^\W\d]", re.DOTALL)
_SCALE = re.compile(
    r"\W*(?:out\s+of|of|max\w*|scale|percent|points?|stars?|to|or|and|up)\b|\s*[/%]", re.IGNORECASE
)
_ONLY_NUMBER = re.compile(r"[\d.,/%]+")
_BRACKET = re.compile(r"\[(?P<square>[^\]]{1,60})\]|\((?P<round>[^)]{1,60})\)")
_WORD = re.compile(r"(?P<word>[A-Za-z]+)\**\s*(?:[:,–—]|-\s)\s*")
_LEAD = re.compile(r"(?P<word>[A-Za-z]+)[*_`]*\s+(?:(?:in|on|for|of|about|with)\s+)?")
_LEFT = " :,;–—-*`|\t"
_ID = re.compile(r"F\d+", re.IGNORECASE)
_IDS = re.compile(r"F\d+(?:(?:\s*[,;&]\s*|\s+(?:and\s+)?|\s*,\s*and\s+)F\d+)*", re.IGNORECASE)
_STILL = re.compile(
    r"\b(?:not|still|open|partly|partial|partially|never|remains?|except|but|almost|mostly|half|"
    r"un\w+|nearly|only|would|could|should|if|once)\b|n't|\?",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"F\d+\s*[:.)]\s*", re.IGNORECASE)
_UNPLACED = re.compile(
    rf"\b(?:{'|'.join(sorted(GRAVE_WORDS))})\b|[\[(](?:{'|'.join(sorted(SEVERITY_WORDS))})[\])]",
    re.IGNORECASE,
)
_BRACKETED = re.compile(
    rf"[\[(]\s*[*_`]*(?P<word>{'|'.join(sorted(SEVERITY_WORDS))})[*_`]*\s*[\])]", re.IGNORECASE
)
_STATED = re.compile(r"\bseverity\W{1,6}(?P<word>[A-Za-z]\w*)", re.IGNORECASE)
_GRAVE = re.compile(
    rf"\b(?:{'|'.join(sorted(GRAVE_WORDS))})s?\b"
    # "Here is my critical review" says nothing of the work.
    r"(?!\s+(?:review|assessment|evaluation|analysis|look|eye|reading|thinking|feedback|judge?ment)"
    r"\b)",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:no|not|none|never|without|nothing|any|if|neither|nor|zero|0)\b|n't\b", re.IGNORECASE
)
_STRAY = re.compile(r"[*_`]*(?:\[(?P<square>[A-Za-z]\w*)\]|(?P<word>[A-Za-z]\w*)[*_`]*\s*[:–—])")

Fields = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class LineReader:
    """Reads entries about these dimensions, the longest names first, without regard to case."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, dimensions: Sequence[str]) -> "LineReader":
        """A reader for these dimensions; where names fit into each other, the longest counts."""
        return cls(tuple(sorted(dimensions, key=len, reverse=True)))

    def score(self, entry: str) -> Fields | str:
        """A dimension with its score and gap; one that is out of range is refused later on."""
        name, rest = self._named(entry)
        found = None
        if name is not None and (separator := _SEPARATOR.match(rest)):
            found = _NUMBER.fullmatch(rest[separator.end() :])
        if name is None or found is None or not _is_score(found):
            return f"The line {_shown(entry)} gives no dimension that was asked for with its score."
        if holds_finding(found["rest"].strip(_LEFT)):
            return f"The line {_shown(entry)} holds a finding; put it under FINDINGS."
        gap = found["rest"].strip().strip(f"()[].{_LEFT}").strip()
        # Models write the minus sign of Unicode as well, which `float` refuses.
        return {"name": name, "score": float(found["number"].replace("−", "-")), "gap": gap}

    def finding(self, entry: str) -> Fields | str:
        """A finding with its severity and dimension; a word of no known severity is kept."""
        severity, name, said = self._head(entry.strip(_MARKS))
        if name is None and len(self.names) == 1:
            name = self.names[0]
        if name is None:
            return f"The finding {_shown(entry)} names no dimension that was asked for."
        if severity is None and (stated := _STATED.search(said)):
            severity = stated["word"]
        # It would count as a suggestion, although its words may mean a blocker.
        if severity is None and _UNPLACED.search(said):
            return f"How bad is the finding {_shown(entry)}? Begin it with [blocker] or the like."
        title, *fixes = FIX.split(said, maxsplit=1)
        return {
            "severity": severity or "suggestion",
            "dimension": name,
            "title": title.strip().rstrip(".;,"),
            "fix": fixes[0].strip() if fixes else "",
        }

    def resolved(self, entry: str) -> tuple[str, ...] | str:
        """The ids that an entry calls settled, and nothing that it takes back."""
        bare = entry.strip(f"{_MARKS}[]")
        found = _IDS.match(bare)
        if found is None or _STILL.search(bare[found.end() :]):
            return f"What is settled by {_shown(entry)}? Give ids of findings alone."
        if _ID.search(bare, found.end()):
            return f"What is settled by {_shown(entry)}? Give ids of findings alone."
        return tuple(_ID.findall(found.group()))

    def begins_entry(self, line: str) -> bool:
        """Whether a line can only be an entry of its own: it begins with a name or a severity."""
        return self._named(line)[0] is not None or _stray_severity(line) is not None

    def stands_against(self, line: str) -> bool:
        """Whether a line is a finding against acceptance: it begins so, or does after a name.

        Brackets further on are thoughts, such as "I found nothing (blocker)".
        """
        name, rest = self._named(line)
        bracket = _BRACKETED.match(rest.lstrip(_LEFT)) if name else None
        is_grave = bracket is not None and known_severity(bracket["word"]) != "suggestion"
        return is_grave or reads_as_finding(line)

    def _head(self, text: str) -> tuple[str | None, str | None, str]:
        """Severity, dimension, and what is said, in whichever order the first two stand."""
        severity: str | None = None
        name: str | None = None
        if number := _NUMBERED.match(text):
            text = text[number.end() :]
        for _ in range(4):
            if name is None and (found := self._named(text))[0] is not None:
                name, text = found[0], found[1].lstrip(_LEFT)
            elif bracket := _BRACKET.match(text):
                inside = (bracket["square"] or bracket["round"]).strip(_MARKS)
                known = self._in_brackets(inside)
                # An unknown word in square brackets stands where a severity does: it is kept, and
                # asked about.
                if known is None and (severity is not None or bracket["square"] is None):
                    break
                severity = severity or (known[0] if known else inside)
                name = name or (known[1] if known else None)
                text = text[bracket.end() :].lstrip(_LEFT)
            elif severity is None and (word := self._severity_word(text)):
                severity, text = word[0], word[1].lstrip(_LEFT)
            else:
                break
        return severity, name, text.strip()

    def _in_brackets(self, inside: str) -> tuple[str | None, str | None] | None:
        """What a bracket says: severity, dimension or both; nothing for an id; None for else."""
        severity: str | None = None
        name: str | None = None
        for piece in re.split(r"\s*[,|/:;]\s*", inside):
            if known_severity(piece) is not None:
                severity = piece
            elif named := meant_name(piece, self.names):
                name = named
            elif not _ID.fullmatch(piece):
                return None
        return severity, name

    def _severity_word(self, text: str) -> tuple[str, str] | None:
        found = _WORD.match(text)
        if found and known_severity(found["word"]):
            return found["word"], text[found.end() :]
        lead = _LEAD.match(text)
        if lead and known_severity(lead["word"]) and self._named(text[lead.end() :])[0]:
            return lead["word"], text[lead.end() :]
        return None

    def _named(self, line: str) -> tuple[str | None, str]:
        """The dimension that a line begins with, the longest that fits, and what follows it."""
        bare = line.lstrip(_MARKS)
        for name in self.names:
            end = _end_of(name.strip(), bare)
            if end is None or bare[end : end + 1].isalnum():
                continue
            meant = meant_name(bare[:end], self.names)
            return meant, bare[end:].lstrip("*_`\"'") if meant else line
        return None, line


def _end_of(name: str, line: str) -> int | None:
    """Where the name ends that a line begins with, in whichever case."""
    folded = name.casefold()
    if not line.casefold().startswith(folded):
        return None
    # A letter may fold to several, as `ß` does: the name may be shorter than its folded form.
    ends = range(1, len(folded) + 1)
    return next((end for end in ends if line[:end].casefold() == folded), None)


def holds_finding(gap: str) -> bool:
    """Whether what is said beside a score is a finding of its own, with how bad it is."""
    return reads_as_finding(gap) or _BRACKETED.search(gap) is not None


def speaks_against(line: str) -> bool:
    """Whether a line beside a structured reply may be a finding that it leaves out."""
    if reads_as_finding(line) or _BRACKETED.search(line):
        return True
    return _GRAVE.search(line) is not None and _NEGATED.search(line) is None


def reads_as_finding(line: str) -> bool:
    """Whether a line begins as a finding that would stand against acceptance."""
    return _stray_severity(line) in {"blocker", "important"}


def _stray_severity(line: str) -> str | None:
    found = _STRAY.match(line)
    return known_severity(found["square"] or found["word"]) if found else None


def _is_score(found: re.Match[str]) -> bool:
    return stands_alone(found["number"], found["rest"], fraction=found["of"] is not None)


def stands_alone(number: str, rest: str, *, fraction: bool = False) -> bool:
    """Whether a number is the score and not the beginning of something else, such as `1 of 10`."""
    # `x`, which is no number: that nothing follows the score is fine.
    if _SCALE.match(rest) or _ONLY_NUMBER.fullmatch(rest.strip(f"()[]{_LEFT}.") or "x"):
        return False
    is_fraction = fraction or "." in number
    return bool(_TAIL.match(rest) or (is_fraction and _WORDS.match(rest)))


def _shown(entry: str) -> str:
    return repr(clipped(entry, SHOWN_CHARACTERS))
