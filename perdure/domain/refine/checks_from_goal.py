"""Checks derived from what a goal states: lengths, words to mention, JSON.

Only what is said plainly becomes a check; a demand that is read in doubt is left to the judge,
since a wrong check makes a goal unreachable. English alone is read; what a goal in another language
demands is the judge's, except for quotations, which work in any.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from perdure.domain.evaluation.checks import ContainsCheck, JsonSchemaCheck, LengthCheck, LengthUnit
from perdure.domain.evaluation.evaluators import JudgeEvaluator, JudgeParameters
from perdure.domain.evaluation.rubric import Dimension

ABOUT = 0.2
# A longer quotation is material to work on rather than a term to mention.
MAX_TERM_CHARACTERS = 80
# Longer items are clauses: `mention that it keeps drinks cold and is light` names no words.
LISTED_WORDS = 2
# Well beyond what a negation reaches, so that a long goal is not read anew for each of its terms.
READ_BACK = 200

_UNITS: dict[LengthUnit, str] = {
    "words": r"words?",
    "lines": r"lines?",
    "sentences": r"sentences?",
    "chars": r"characters?|chars?",
}
_NAMES: dict[LengthUnit, str] = {"chars": "characters"}
# Of these a bare number is meant exactly; of words and characters it says about how many.
_COUNTED: frozenset[LengthUnit] = frozenset({"lines", "sentences"})
_ANY_UNIT = "|".join(_UNITS.values())
_NUMBER_WORDS = {
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6,
    "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
_NUMBER = r"\d{1,3}(?:[.,]\d{3})+|\d{1,6}|" + "|".join(_NUMBER_WORDS)
_NEVER = r"(?:no|not|never|without|cannot|\w+n['’]t)\s+"
# As in `do not make it longer than`.
_NOT_BE = rf"{_NEVER}(?:(?!but\b)\w+\s+){{0,2}}"
_COUNT = rf"(?=\s+(?:{_NUMBER})\b)"
_MORE_THAN = rf"(?:more than|longer than|exceed(?:ing)?|(?:over|above){_COUNT})"
_LESS_THAN = rf"(?:less than|fewer than|shorter than|(?:under|below){_COUNT})"
_BOUNDS = (
    ("below", r"under|below|less than|fewer than|shorter than|<"),
    ("max", rf"at most|{_NOT_BE}{_MORE_THAN}|up to|max(?:imum)?(?: of)?\.?|within|<=|≤"),
    ("above", r"more than|over|longer than|>"),
    ("min", rf"at least|{_NOT_BE}{_LESS_THAN}|min(?:imum)?(?: of)?\.?|>=|≥"),
    ("exact", r"exactly|precisely|just|="),
    ("about", r"about|around|roughly|approximately|approx\.?|some|~|≈|ca\.?"),
)
_PREFIX = "|".join(f"(?P<{name}>{words})" for name, words in _BOUNDS)
_LESS = r"or (?:less|fewer)|max(?:imum)?|at most"
_MORE = r"or more|min(?:imum)?|at least"
# The look-behinds keep parts of another number out: neither `2.5 lines` nor `twenty-five lines`
# asks for five, and `1 000 words` not for none.
_LENGTH = re.compile(
    rf"(?:(?<!\w)(?:{_PREFIX})\s*)?(?<![\w.,])(?<!\w-)(?<!\d\s)(?P<low>{_NUMBER})"
    rf"(?:\s*(?:-|–|to|and)\s*(?P<high>{_NUMBER}))?"
    rf"[\s-]+(?:(?P<words>{_UNITS['words']})|(?P<lines>{_UNITS['lines']})"
    rf"|(?P<sentences>{_UNITS['sentences']})|(?P<chars>{_UNITS['chars']}))(?!\w)"
    rf"(?:\s+(?:(?P<less>{_LESS})|(?P<more>{_MORE}))(?!\w))?",
    re.IGNORECASE,
)
_OF_A_PART = re.compile(
    rf"(?:{_ANY_UNIT}|paragraphs?|bullets?|items?)\s+(?:of|with)\s+$", re.IGNORECASE
)
_OF_A_NUMBER = re.compile(r"(?:hundred|thousand)\s+(?:and\s+)?$", re.IGNORECASE)
# As in `keep each sentence under 20 words`, which says nothing of all sentences together.
_OF_EACH = re.compile(r"\b(?:each|every)\b[^.!?;\n]*$", re.IGNORECASE)
_PER_PART = re.compile(r"\s*,?\s*(?:per|each|in each|in every|apiece)\b", re.IGNORECASE)
# An apostrophe within a word, as in `the dog's`, opens no quotation.
_QUOTED = re.compile(
    r"“([^”]+)”|„([^“”]+)[“”]|«\s*([^»]+?)\s*»|「([^」]+)」"
    r"|\"([^\"\n]+)\"|`([^`\n]+)`|(?<!\w)'([^'\n]+)'(?!\w)|(?<!\w)‘([^’\n]+)’(?!\w)"
)
# Quotations are read in any language, and one that is to be avoided must not become a demand.
_BUT = r"\b(?:but|sondern|aber|mais|sino|pero)\b"
# Behind a noun that is forbidden a command is a new one: `without jargon, mention steel`.
_COMMAND = r"(?:,|\band)\s+(?:and\s+)?(?:mention|include|contain|use)\b"
_NOT = re.compile(
    r"\b(?:(?:without|avoid(?:s|ing)?|no|ohne|keine?[nrms]?|vermeide\w*|sans|sin|evita\w*)\b"
    rf"(?:(?!{_BUT}|{_COMMAND})[^.!?;\n]){{0,50}}"
    r"|(?:never|not|cannot|\w+n['’]t|nicht|nie|jamais|pas|nunca)\b"
    rf"(?:(?!{_BUT})[^.!?;\n]){{0,50}})$",
    re.IGNORECASE,
)
# Negations that forbid nothing, but `do not exceed 60 words or mention the price` forbids both.
_LIMITS = rf"{_NOT_BE}(?:{_MORE_THAN}|{_LESS_THAN})\b(?![^.!?\n]*\bn?or\b(?!\s*(?:{_NUMBER})))"
_FORBIDS_NOTHING = re.compile(
    rf"\b(?:{_LIMITS}|{_NEVER}(?:only|just|forget(?:ting)?|fail(?:ing)?|omit(?:ting)?)\b"
    r"|nicht\s+(?:nur|(?:mehr|weniger|länger|kürzer)\s+als)\b|verg(?:iss|esst|essen\s+Sie)\s+nicht\b"
    r"|oubli\w*\s+pas\b|pas\s+(?:seulement|plus|moins)\b|no\s+(?:olvid\w+|solo|sólo|más)\b)",
    re.IGNORECASE,
)
_CUE = re.compile(
    r"\b(?P<cue>mention(?:s|ing)?|includ(?:e|es|ing)|contain(?:s|ing)?|keywords?)\b\s*:?\s*"
    r"(?:both\s+|the\s+(?:words?|terms?|keywords?)\s*:?\s*)?(?P<list>[^.;!?\n]+)",
    re.IGNORECASE,
)
_LIST_ENDS = re.compile(r"\s+(?:in|with|within|at|under|using|for|by|as|but|so)\s", re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*,\s*(?:and|or)\s+|\s*,\s*|\s+(?:and|or|&)\s+")
_ARTICLE = re.compile(r"^(?:the|an?|its|their|our)\s+", re.IGNORECASE)
_SHAPES = r"object|array|list|document|output|format"
# `the JSON document` is one that is there already.
_ONE = r"(?:an?\s+|one\s+|single\s+|valid\s+|pure\s+|the\s+(?=JSON\s+format\b))*"
# Behind the verbs of the second line a noun follows: `write a JSON parser` asks for no JSON.
_JSON = re.compile(
    r"\b(?:as|in|into|be|return|output|give(?:\s+me)?|reply with|answer with)\s+"
    rf"{_ONE}JSON\b(?:[\s-](?P<form>{_SHAPES})\b)?"
    r"|(?:\b(?:write|create|produce|generate|make|build|provide|print|send|use|need|want)\s+"
    rf"{_ONE}|(?:^|[.:;,(\n])\s*)(?:valid\s+JSON\b|JSON[\s-](?P<noun>{_SHAPES})\b)",
    re.IGNORECASE,
)
# What a program is to give or to read is not the form of the answer.
_OF_A_PROGRAM = re.compile(
    r"\b(?:script|function|program|endpoint|api|class|method|parser|library|app|service|server"
    r"|handler|command|tool|query)s?\s+(?:that|which|to|with|returning)\b[^.!?;\n]*$",
    re.IGNORECASE,
)
_KEYS = re.compile(r"\b(?:keys?|fields?|properties)\b\s*:?\s*(?P<list>[^.;!?\n]+)", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][\w-]*")


@dataclass(slots=True)
class _Range:
    low: int | None = None
    high: int | None = None

    def narrowed(self, low: int | None, high: int | None) -> bool:
        """Take over another demand; False, and unchanged, when both cannot be met."""
        lowest = max((bound for bound in (low, self.low) if bound is not None), default=None)
        highest = min((bound for bound in (high, self.high) if bound is not None), default=None)
        if lowest is not None and highest is not None and lowest > highest:
            return False
        self.low, self.high = lowest, highest
        return True


def derive(goal: str) -> tuple[Dimension, ...]:
    """The checks that a goal states, in the order length, mentions, JSON; often none."""
    return (*_lengths(goal), *_mentions(goal), *_json(goal))


def judged_goal() -> Dimension:
    """The dimension that a judge scores beside derived checks."""
    return Dimension(
        name="task",
        description="Does the output do what the goal asks for, completely and well?",
        evaluator=JudgeEvaluator(judge=JudgeParameters()),
    )


def _lengths(goal: str) -> Iterator[Dimension]:
    ranges: dict[LengthUnit, _Range] = {}
    for found in _LENGTH.finditer(goal):
        before = goal[: found.start()][-READ_BACK:]
        if any(read.search(before) for read in (_OF_A_PART, _OF_EACH, _OF_A_NUMBER)):
            continue  # it speaks of a part, or is the end of a number in words
        if _PER_PART.match(goal, found.end()):
            continue
        unit: LengthUnit = next(name for name in _UNITS if found.group(name))
        low, high = _bounds(found, unit)
        ranges.setdefault(unit, _Range()).narrowed(low, high)
    for unit, asked in ranges.items():
        yield Dimension(
            name=_NAMES.get(unit, unit),
            hint=_range_text(asked, _NAMES.get(unit, unit)),
            evaluator=LengthCheck(check="length", unit=unit, min=asked.low, max=asked.high),
        )


def _bounds(found: re.Match[str], unit: LengthUnit) -> tuple[int | None, int | None]:
    low = _number(found["low"])
    if found["high"]:
        high = _number(found["high"])
        return min(low, high), max(low, high)
    word = next((name for name, _ in _BOUNDS if found[name]), None)
    if word == "max" or found["less"]:
        return None, low
    if word == "min" or found["more"]:
        return low, None
    if word == "below":
        return None, max(0, low - 1)
    if word == "above":
        return low + 1, None
    if word == "exact" or (word is None and unit in _COUNTED):
        return low, low
    # Rounded down and up, so that the range is never narrower than it says.
    return int(low * (1 - ABOUT)), -int(-low * (1 + ABOUT) // 1)


def _number(text: str) -> int:
    known = _NUMBER_WORDS.get(text.lower())
    return known if known is not None else int(re.sub(r"[.,]", "", text))


def _range_text(asked: _Range, unit: str) -> str:
    if asked.low == asked.high:
        return f"exactly {asked.low} {unit}"
    if asked.low is None:
        return f"at most {asked.high} {unit}"
    return f"at least {asked.low} {unit}" + (
        "" if asked.high is None else f", at most {asked.high}"
    )


def _mentions(goal: str) -> Iterator[Dimension]:
    wanted: dict[str, str] = {}
    banned: dict[str, str] = {}
    for start, term in [*_quoted(goal), *_listed(goal)]:
        chosen = banned if _is_forbidden(goal[:start]) else wanted
        chosen.setdefault(term.casefold(), term)
    # Where a goal says both, no output could meet the two checks.
    wanted = {key: term for key, term in wanted.items() if key not in banned}
    if wanted:
        terms = tuple(wanted.values())
        yield Dimension(
            name="mentions",
            hint="mention " + ", ".join(terms),
            evaluator=ContainsCheck(check="contains", all=terms),
        )
    if banned:
        terms = tuple(banned.values())
        yield Dimension(
            name="avoids",
            hint="do not use " + ", ".join(terms),
            evaluator=ContainsCheck(check="contains", none=terms),
        )


def _is_forbidden(before: str) -> bool:
    """Whether what stands before a demand turns it into its opposite."""
    return _NOT.search(_FORBIDS_NOTHING.sub(".", before[-READ_BACK:])) is not None


def _quoted(goal: str) -> Iterator[tuple[int, str]]:
    for found in _QUOTED.finditer(goal):
        # American English puts the comma or full stop of the sentence inside the quotation.
        term = next(group for group in found.groups() if group is not None).strip(" ,.;:!?")
        if 0 < len(term) <= MAX_TERM_CHARACTERS:
            yield found.start(), term


def _listed(goal: str) -> Iterator[tuple[int, str]]:
    """The items of lists such as `mention steel, dishwasher and warranty`."""
    for found in _CUE.finditer(goal):
        items = _items(found["list"])
        short = all(len(item.split()) <= LISTED_WORDS for item in items)
        # A single item is more often a clause: `include a short call to action` names no words.
        if len(items) > 1 and short and not _QUOTED.search(found["list"]):
            yield from ((found.end("cue"), item) for item in items)


def _items(text: str) -> list[str]:
    ends = _LIST_ENDS.search(text)
    text = text[: ends.start()] if ends else text
    items = (_ARTICLE.sub("", item.strip(" :,()")) for item in _SEPARATOR.split(text))
    return [item for item in items if item]


def _json(goal: str) -> Iterator[Dimension]:
    found = _JSON.search(goal)
    if found is None or _is_forbidden(goal[: found.start()]):
        return
    if _OF_A_PROGRAM.search(goal[: found.start()][-READ_BACK:]):
        return
    keys = _json_keys(goal)
    yield Dimension(
        name="json",
        hint="answer with JSON only" + (f", with {', '.join(keys)}" if keys else ""),
        evaluator=JsonSchemaCheck(
            check="json_schema", schema=_schema(found["form"] or found["noun"] or "", keys=keys)
        ),
    )


def _schema(shape: str, *, keys: list[str]) -> dict[str, JsonValue]:
    if keys:
        return {"type": "object", "required": list[JsonValue](keys)}
    if shape.lower().startswith("obj"):
        return {"type": "object"}
    if shape.lower() in {"array", "list", "liste"}:
        return {"type": "array"}
    return {"type": ["object", "array"]}


def _json_keys(goal: str) -> list[str]:
    found = _KEYS.search(goal)
    if found is None:
        return []
    items = [item.strip("'\"`“”„ ") for item in _items(found["list"])]
    # One item that is no name shows that the list is prose, so none of it is taken for keys.
    return items if items and all(_NAME.fullmatch(item) for item in items) else []
