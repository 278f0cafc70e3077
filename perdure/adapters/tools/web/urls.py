"""Reading a URL once, strictly: what comes out is what is resolved, connected to and shown."""

import re
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address

import httpx2

from perdure.domain.foundation.errors import ToolFailure

URL_CHARACTERS = 2_000
PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_HOST_CHARACTERS = 253
# Names that mean this host or its network wherever they are resolved.
_LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa", "onion")


def read_url(text: str) -> httpx2.URL:
    """The address of a page on the public web, by its form; nothing is looked up.

    Raises:
        ToolFailure: it is malformed, or names something that is not fetched.
    """
    given = text.strip()
    if len(given) > URL_CHARACTERS:
        raise refused(f"the URL has {len(given)} characters; {URL_CHARACTERS} are allowed")
    if "\\" in given or any(not c.isprintable() or c.isspace() for c in given):
        raise refused("the URL holds spaces, backslashes or control characters")
    try:
        url = httpx2.URL(given).copy_with(fragment=None)
        host = url.raw_host.decode("ascii").lower()
    except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
        raise refused(f"the URL cannot be read ({error})") from error
    if url.scheme not in PORTS:
        raise refused(
            f"only http and https are fetched, not {url.scheme or 'a URL without scheme'}"
        )
    if url.userinfo or "@" in url.netloc.decode("ascii", "replace"):
        raise refused("the URL holds a user name or password")
    if url.port not in (None, *PORTS.values()):
        raise refused(f"only the ports 80 and 443 are fetched, not {url.port}")
    return url.copy_with(host=_checked_host(host))


def allows(patterns: Sequence[str], host: str) -> bool:
    """Whether a host is on the list: by its name, by `*.domain` for those below it, or by `*`."""
    return any(_fits(pattern.strip().lower().rstrip("."), host) for pattern in patterns)


def refused(why: str) -> ToolFailure:
    """The failure that says why a page is not fetched."""
    return ToolFailure(f"Not fetched: {why}.", reason="refused")


def _fits(pattern: str, host: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern[1:])
    return pattern in ("*", host)


def _checked_host(host: str) -> str:
    """The host as it is resolved: a plain address, or a name with a dot and plain labels."""
    if ":" in host:
        return _checked_literal(host)
    name = host.removesuffix(".")
    labels = name.split(".")
    if _is_number(labels[-1]):
        # Browsers read 0x7f.1, 2130706433 and 017700000001 as addresses; here only a.b.c.d is one.
        return _checked_literal(name)
    if len(name) > _HOST_CHARACTERS or not all(map(_LABEL.fullmatch, labels)):
        raise refused(f"{host[:80]!r} is no host name")
    if len(labels) < 2 or any(name.endswith(f".{local}") for local in _LOCAL_NAMES):
        raise refused(f"{host[:80]!r} is no name of the public web")
    return name


def _checked_literal(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        raise refused(f"{host[:80]!r} is no address in its plain form") from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise refused(f"{host[:80]!r} names a network interface")
    return str(address)


def _is_number(label: str) -> bool:
    return label.isdigit() or re.fullmatch(r"0x[0-9a-f]*", label) is not None
