"""Takes secrets out of texts, so that no error that is shown or stored holds a credential.

An error message of a provider, library or server may repeat the failed request, and with it a
password in a URL, an `Authorization` header or a key. Secrets are found by their shape, and
configured ones by their value. Every pattern is bounded, so the time is linear in the text.
"""

import re
from collections.abc import Iterable

REDACTED = "[redacted]"

_SECRET_NAMES = (
    r"(?:password|passwd|passphrase|secret|api[-_]?key|access[-_]?key|private[-_]?key"
    r"|(?:access|auth|refresh|session|id|api|client)[-_]?token|client[-_]?secret|credentials?)"
)
_SCHEME = r"(?:bearer|basic|digest|token|negotiate|apikey)"
_QUOTE = r"\\?[\"']"
_VALUE = r"[^\s\"'\\,;&<>`]"
_ENDS = ("password", "passwd", "passphrase", "secret", "key", "token", "credential", "credentials")
# Each with words in small letters, of which a text that it matches has one: most texts have none of
# any, and looking for words takes a small part of the time.
_SHAPES: tuple[tuple[re.Pattern[str], str, tuple[str, ...]], ...] = tuple(
    (re.compile(pattern), kept, words)
    for pattern, kept, words in (
        # A private key, also one of which the end was cut off.
        (r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:(?!-----)[^\"]){0,20000}"
         r"(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?", "", ("private key-----",)),
        # scheme://user:password@host, with the host left to read.
        (r"(?<=://)[^\s/?#\"'<>\\]{1,500}@", f"{REDACTED}@", ("@",)),
        # Headers, as a line, a field of JSON or an item of a mapping.
        (rf"(?i)\b((?:proxy-)?authorization(?:{_QUOTE})?\s{{0,5}}[:=]\s{{0,5}}(?:{_QUOTE})?)"
         rf"(?:{_SCHEME}\s{{1,5}})?(?!{_SCHEME}\s){_VALUE}{{6,}}", r"\1", ("authorization",)),
        (rf"(?i)\b((?:x-api-key|x-auth-token|x-goog-api-key|api-key|set-cookie|cookie)"
         rf"(?:{_QUOTE})?\s{{0,5}}[:=]\s{{0,5}}(?:{_QUOTE})?)[^\r\n\"'\\]{{6,}}", r"\1",
         ("api-key", "auth-token", "cookie")),
        (r"(?i)\b(bearer\s{1,5})(?=[^\s]{0,200}[0-9._=-])[a-z0-9._~+/=-]{8,}", r"\1",
         ("bearer",)),
        # password=…, ?access_token=…, "client_secret": "…"
        (rf"(?i)({_SECRET_NAMES}=)(?:{_QUOTE})?{_VALUE}{{4,}}", r"\1",
         tuple(f"{end}=" for end in _ENDS)),
        (r"(?i)([?&](?:token|key|sig|signature|auth|pwd)=)[^\s\"'\\&<>`#]{4,}", r"\1",
         ("token=", "key=", "sig=", "signature=", "auth=", "pwd=")),
        (rf"(?i)({_SECRET_NAMES}{_QUOTE}\s{{0,5}}:\s{{0,5}}{_QUOTE})[^\"'\\]{{4,}}", r"\1",
         tuple(f"{end}{quote}" for end in _ENDS for quote in "\"'\\")),
        # Keys that are known by how they begin.
        (r"\b(sk-(?:ant-)?)[A-Za-z0-9_-]{16,}", r"\1", ("sk-",)),
        (r"\b(perdure_[0-9a-f]{8}_)[A-Za-z0-9_-]{20,}", r"\1", ("perdure_",)),
        (r"\b(gh[oprsu]_|github_pat_|glpat-|hf_|npm_|pypi-|whsec_|[rs]k_(?:live|test)_)"
         r"[A-Za-z0-9_=+/-]{16,}", r"\1",
         ("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "hf_", "npm_", "pypi-",
          "whsec_", "k_live_", "k_test_")),
        (r"\b(xox[a-z]-|xapp-)[A-Za-z0-9-]{10,}", r"\1", ("xox", "xapp-")),
        (r"\b(AKIA|ASIA)[A-Z0-9]{16}\b", r"\1", ("akia", "asia")),
        (r"\b(AIza)[A-Za-z0-9_-]{30,}", r"\1", ("aiza",)),
        (r"\b(eyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?", r"\1", ("eyj",)),
        (r"(?<=hooks\.slack\.com/)[A-Za-z0-9/_-]{10,}", "", ("hooks.slack.com/",)),
    )
)  # fmt: skip
_WORDS = tuple(dict.fromkeys(word for _, _, words in _SHAPES for word in words))
# What patterns that ignore case take for an i, an s and a k as well.
_LIKE_ASCII = (("\u0130", "i"), ("\u0131", "i"), ("\u017f", "s"), ("\u212a", "k"))
_SECRET_VARIABLE = re.compile(
    r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|AUTHORIZATION)$"
)


def redacted(text: str, values: Iterable[str] = ()) -> str:
    """The text without credentials.

    Args:
        text: any.
        values: what must not be told in any case, however they are spelled.
    """
    # Before the shapes: one of them may take a part of such a value, and leave the rest to read.
    for value in values:
        text = text.replace(value, REDACTED)
    # The text in small letters, as the words of a shape are looked for.
    plain = text
    if not text.isascii():
        for like, letter in _LIKE_ASCII:
            plain = plain.replace(like, letter)
    plain = plain.lower()
    if not any(map(plain.__contains__, _WORDS)):
        return text
    for pattern, kept, words in _SHAPES:
        if not any(word in plain for word in words):
            continue
        # `plain` need not be made anew: a replacement brings none of the words.
        text = pattern.sub(kept if kept.endswith("@") else f"{kept}{REDACTED}", text)
    return text


def redacted_data(data: object, values: Iterable[str] = ()) -> object:
    """The same for data as JSON has it; the names of fields stay."""
    known = tuple(values)
    match data:
        case str():
            return redacted(data, known)
        case dict():
            return {name: redacted_data(item, known) for name, item in data.items()}
        case list() | tuple():
            return [redacted_data(item, known) for item in data]
        case _:
            return data


def names_a_secret(variable: str) -> bool:
    """Whether an environment variable holds a credential, by its name."""
    return _SECRET_VARIABLE.search(variable.upper()) is not None
