"""Foreign text as a person sees it: folded before it is compared, with hidden signs shown.

Signs without a shape can split a word for a program that a person reads whole, or hide words from a
person that a program acts on. Rules compare `folded` text; people are shown `visible` text.
"""

import re
import unicodedata

# Default_Ignorable_Code_Point of Unicode, and the blank braille pattern, which has no shape either.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SHAPELESS = re.compile(f"[{_IGNORABLE}]")
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
