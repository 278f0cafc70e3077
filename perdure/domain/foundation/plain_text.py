"""Foreign text and low-level errors as people read them.

Signs without a shape can split a word for a program that a person reads whole, or hide words from a
person that a program acts on. Rules compare `folded` text; people are shown `visible` text where
they decide by it, and `printable` text everywhere else.

Nothing is decided by these words: policy looks at types and codes.
"""

import errno
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterator

# Default_Ignorable_Code_Point of Unicode, and the blank braille pattern, which has no shape either.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SHAPELESS = re.compile(f"[{_IGNORABLE}]")
_SEEN = re.compile(rf"[^\s\x00-\x1f\x7f-\x9f{_IGNORABLE}]")
# What a terminal obeys or shows in another order, and what no encoding takes. Honest writing
# (French, Hindi, emoji) needs spaces that do not break, joiners and variation selectors: they stay.
_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff0-\ufffb\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Colours, which programs write for terminals of their own; and line ends of Windows.
_DROPPED = re.compile(r"\x1b\[[0-9;:]*m|\r(?=\n)")
_MOST_MARKS = 400
_MARKS_ALONE = re.compile(
    r"<!--.*?-->|^[ \t]*(?:`{3,}|~{3,})[\w+-]*[ \t]*$|^[ \t]*(?:[-*_=][ \t]*){3,}$"
    r"|^[ \t]*[#>*+-]{1,6}[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_HIDDEN_CATEGORIES = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
_KEPT = {"\n", "\t"}
_LINE_END = re.compile(r"\r\n|\r|\n")


def folded(text: str) -> str:
    """Text for comparisons: compatible forms are one (NFKC), signs without a shape are left out."""
    bare = _without_shape(text)
    return _without_shape(unicodedata.normalize("NFKC", bare))


def is_blank(text: str) -> bool:
    """Whether a person would see nothing: only spaces, hidden signs, and marks around nothing.

    Marks are those of Markdown and HTML that show no words: an empty fence, a rule, a comment.
    """
    # A longer text has words in it; the bound keeps the search for ends of comments short.
    seen = text if len(text) > _MOST_MARKS else _MARKS_ALONE.sub("", text)
    return _SEEN.search(seen) is None


def require_not_blank(text: str) -> str:
    """The same text, which people see something of; raises `ValueError` for a blank one."""
    if is_blank(text):
        raise ValueError("a text that is not empty")
    return text


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


def clipped(text: str, limit: int) -> str:
    """At most so many characters of a text; an ellipsis says that it was longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def clipped_line(text: str, limit: int) -> str:
    """One line of at most so many characters; an ellipsis says that it was longer."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def lines_of(text: str) -> list[str]:
    """The lines of a text in a form with one item a line, by the line ends of any system.

    `str.splitlines` ends lines at more signs, such as U+2028, which JSON has inside of texts.
    """
    return _LINE_END.split(text)


def quoted(name: str, text: str) -> str:
    """Text as data between marks that it cannot contain: they are made from its own hash."""
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_BOUNDARY_CHARACTERS]
    return f"[data {name} {mark}]\n{text}\n[end of data {mark}]"


CHAIN_LIMIT = 20

_BY_ERRNO = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "the connection was cut",
    errno.EPIPE: "the connection was cut",
    errno.ETIMEDOUT: "no answer in time",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the host",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk is full",
}
# Some libraries hand over text alone; the first pattern that is found names the cause.
_BY_TEXT = (
    (r"disk is full|no space left|SQLITE_FULL|disk quota exceeded", "the disk is full"),
    (
        r"dns error|failed to lookup address|name or service not known|nodename nor servname"
        r"|name resolution|no address associated",
        "no such host",
    ),
    (r"connection refused|connect call failed", "connection refused"),
    (r"connection reset|broken pipe|connection closed", "the connection was cut"),
    (r"timed out|timeout|deadline", "no answer in time"),
    (r"host unreachable|network is unreachable|no route to host", "no route to the host"),
    (r"invalid ?certificate|certificate.verify|unknown ?issuer", "its certificate is not trusted"),
    (r"InvalidContentType|HandshakeFailure|handshake|wrong.version", "the TLS handshake failed"),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), words) for pattern, words in _BY_TEXT)
_RAW = re.compile(
    r"\b[a-z_]\w*::\w+|\bOs \{|\[SQL:|\b(?:INSERT\s+INTO|DELETE\s+FROM|CREATE\s+TABLE)\b"
    r"|\bUPDATE\s+\w+\s+SET\b|\bSELECT\b.*\bFROM\b|\bPRAGMA\b",
    re.DOTALL,
)
_OS_CODE = re.compile(r"Os \{ code: (\d+)")


def cause_in_words(error: BaseException, *, otherwise: str) -> str:
    """Why something failed, from the error and all that it came of.

    Args:
        error: as raised.
        otherwise: what is said of a cause that has no words here.
    """
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, OSError) and link.errno in _BY_ERRNO:
            return _BY_ERRNO[link.errno]
    found = (words for link in chain if (words := _known(str(link))) is not None)
    return next(found, otherwise)


def said_in_words(text: str, *, otherwise: str) -> str:
    """What a server or library said: its own words, unless they are those of its insides.

    Args:
        text: as it came.
        otherwise: what is said in place of insides that have no words here.
    """
    if not _RAW.search(text):
        return text.strip().rstrip(".")
    return _known(text) or otherwise


def _known(text: str) -> str | None:
    code = _OS_CODE.search(text)
    if code is not None and int(code.group(1)) in _BY_ERRNO:
        return _BY_ERRNO[int(code.group(1))]
    return next((words for pattern, words in _PATTERNS if pattern.search(text)), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it wraps, and what those came of; without end only by mistake."""
    waiting, seen = [error], 0
    while waiting and seen < CHAIN_LIMIT:
        link = waiting.pop(0)
        seen += 1
        yield link
        if isinstance(link, BaseExceptionGroup):
            waiting.extend(link.exceptions)
        cause = link.__cause__ or link.__context__
        if cause is not None:
            waiting.append(cause)
