"""Marks that stand where content is missing.

They count where they can only be marks: at the beginning of a line or a comment, brackets that ask
to be filled, filler text, or a body that is nothing else. Prose may speak of a todo or of a
placeholder, in Spanish it always does, a template is full of {{ names }}, a program may be about
TODO lists, and a manual names the buttons of a program in brackets.
"""

import re

_PLACEHOLDER = re.compile(
    r"""
      ^[ \t>*-]*(?:TODO|FIXME|TBD)(?=(?:\([^)\n]*\))?[ \t]*(?::|$))
    # A # that begins a line may make a heading; a dash or a semicolon may go on with a sentence.
    | (?:^[ ]{0,3}\#+|[ \t](?:;+|--))[ \t]*(?:TODO|FIXME|TBD)
        (?=(?:\([^)\n]*\))?[ \t]*(?::|$))
    | (?:(?:(?<=\S)[ \t]+|^(?:[ ]{4,}|[ ]*\t[ \t]*))\#+|(?<![^\s;{}(),])//+|/\*+|<!--
        |^[ \t]*(?:;+|--))
        [ \t]*(?:TODO|FIXME|TBD)\b(?![-\w])(?!(?i:[ \t]+(?:NOUN)s?\b))
    | (?i:\blorem\ ipsum\ dolor\b | ^[ \t]*lorem\ ipsum[ \t.…]*$)
    | (?i:(?<![\w\])])\[(?:insert|your|add)[ \t-]+\w[^\]\n]{0,60}\]
        (?![(\[]|:[ ]*(?:https?:|[/<\#])))
    | (?i:<(?:insert|your)[ \t-]+[^\W\d][^>=\n]{0,60}(?<!/)>)
    | (?i:^[ \t>\#*(\[-]*(?:not|to[ ]be)[ ](?:yet[ ])?implemented[ \t.)\]]*$)
    """.replace(
        "NOUN",
        "api|app|application|board|card|client|comment|component|controller|demo|entity|entry|"
        "example|form|item|list|manager|model|page|project|route|schema|server|service|store|"
        "table|task|tracker|tutorial|view",
    ),
    re.VERBOSE | re.MULTILINE,
)
_NOTHING_ELSE = re.compile(
    r"\W*(?:todo|fixme|tbd|tba|placeholder|lorem ipsum|n/?a|\{\{[^{}\n]{1,60}\}\})\W*",
    re.IGNORECASE,
)
# Brackets behind "press" or before "button" name a control, and a quoted mark is only quoted.
_BEFORE_BUTTON = re.compile(
    r"\b(?:click|press|tap|hit|select|choose|push|pick|button|tab|link|menu|called|labell?ed)\b"
    r"(?:\s+(?:on|the|to|a|an|and|then|hold))*[\s:\"'“*_`]*$",
    re.IGNORECASE,
)
_AFTER_BUTTON = re.compile(
    r"[\"'”*_`]*\s+(?:button|key|tab|menu|link|icon|field|box|label|screen)\b", re.IGNORECASE
)
_BUTTON = re.compile(r"\[add (?:to|new|another)\b(?!.*\bhere\b)", re.IGNORECASE)
_OPERATION = re.compile(
    r"\[insert[ \t-]+(?:into|or|and|only|mode|at|before|after|order|rows?|statements?)\b",
    re.IGNORECASE,
)
_QUOTE = re.compile(r"\w[,:]? [“«„‘\"'`]$")
_NEARBY = 60


def placeholders(text: str) -> tuple[str, ...]:
    """Marks that stand where content is missing, each as it is written."""
    if _NOTHING_ELSE.fullmatch(text):
        return (text.strip(),)
    found = (match for match in _PLACEHOLDER.finditer(text) if not _is_spoken_of(match, text))
    return tuple(match.group().strip(" \t>*#/;<!-") for match in found)


def _is_spoken_of(match: re.Match[str], text: str) -> bool:
    """Whether what looks like a mark is a button, an element, an operation or a quotation."""
    mark = match.group().strip()
    before = text[max(0, match.start() - _NEARBY) : match.start()]
    after = text[match.end() : match.end() + _NEARBY]
    if mark.startswith("["):
        is_pressed = bool(_BEFORE_BUTTON.search(before) or _AFTER_BUTTON.match(after))
        return is_pressed or bool(_OPERATION.match(mark)) or bool(_BUTTON.match(mark))
    if mark.startswith("<") and not mark.startswith("<!"):
        name = re.split(r"[\s>]", mark[1:], maxsplit=1)[0]
        return f"</{name}" in text
    return mark[:5].casefold() == "lorem" and bool(_QUOTE.search(before))
