"""What low-level failures are called when people read of them: no errno, Rust type or SQL.

Nothing is decided by these words: policy looks at types and codes.
"""

import errno
import re
from collections.abc import Iterator

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
