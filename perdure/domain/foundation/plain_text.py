"""Foreign text as a person sees it: folded before it is compared, with hidden signs shown.

Signs without a shape can split a word for a program that a person reads whole, or hide words from a
person that a program acts on. Rules compare `folded` text; people are shown `visible` text where
they decide by it, and `printable` text everywhere else.
"""

import hashlib
import json
import re
import unicodedata

# Default_Ignorable_Code_Point of Unicode, and the blank braille pattern, which has no shape either.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SHAPELESS = re.compile(f"[{_IGNORABLE}]")
# What a terminal obeys or shows in another order, and what no encoding takes. Honest writing
# (French, Hindi, emoji) needs spaces that do not break, joiners and variation selectors: they stay.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Colours, which programs write for terminals of their own; and line ends of Windows.
_DROPPED = re.compile(r"\x1b\[[0-9;:]*m|\r(?=\n)")
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
_KEPT = {"\n", "\t"}


def folded(text: str) -> str:
    """Text for comparisons: compatible forms are one (NFKC), signs without a shape are left out."""
    bare = _without_shape(text)
    return _without_shape(unicodedata.normalize("NFKC", bare))


def visible(text: str) -> str:
    """Text for people: control signs, and those without a shape, by their number (`<U+202E>`)."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"<U+{ord(sign):04X}>" if _is_hidden(sign) else sign for sign in text)


def printable(text: str) -> str:
    """Text that is safe to print: what a terminal would obey by its number, colours left out."""
    if not _OBEYED.search(text):
        return text
    return _OBEYED.sub(_number, _DROPPED.sub("", text))


def printable_json(text: str) -> str:
    """The same JSON value with signs that a terminal would obey as escapes."""
    return _OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], text)


def _number(found: re.Match[str]) -> str:
    return f"<U+{ord(found[0]):04X}>"


def _without_shape(text: str) -> str:
    seen = _SHAPELESS.sub("", text)
    return "".join(sign for sign in seen if unicodedata.category(sign) != "Cf")


def _is_hidden(sign: str) -> bool:
    if sign in _KEPT:
        return False
    is_odd_space = unicodedata.category(sign) == "Zs" and sign != " "
    return (
        is_odd_space
        or unicodedata.category(sign) in _HIDDEN_CATEGORIES
        or bool(_SHAPELESS.match(sign))
    )


_BOUNDARY_CHARACTERS = 12


def quoted(name: str, text: str) -> str:
    """Text as data between marks that it cannot contain: they are made from its own hash."""
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_BOUNDARY_CHARACTERS]
    return f"[data {name} {mark}]\n{text}\n[end of data {mark}]"
