"""Which URLs and addresses may be fetched: strictly parsed, and on the public internet."""

import re
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import httpx2

from perdure.domain.foundation.errors import ToolFailure

URL_CHARACTERS = 2_000
PORTS = {"http": 80, "https": 443}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_HOST_CHARACTERS = 253
# Names that mean this host or its own network, and one that no public resolver knows.
_LOCAL_NAMES = ("localhost", "local", "internal", "home.arpa", "onion")
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Relays of 6to4 and Teredo would connect to an IPv4 address that is inside the IPv6 one.
_TUNNELS = (IPv6Network("2002::/16"), IPv6Network("2001::/23"))
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
# Not public, although `is_global` is true for addresses in them.
_NOT_PUBLIC = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("168.63.129.16/32"),  # Azure's own services, at a public address
)


def read_url(text: str) -> httpx2.URL:
    """Parse the URL of a page on the public web, without resolving its host.

    Raises:
        ToolFailure: it is malformed, or its scheme, port or host is not allowed.
    """
    given = text.strip()
    if len(given) > URL_CHARACTERS:
        raise fetch_error(f"the URL has {len(given)} characters; {URL_CHARACTERS} are allowed")
    if "\\" in given or any(not c.isprintable() or c.isspace() for c in given):
        raise fetch_error("the URL holds spaces, backslashes or control characters")
    try:
        url = httpx2.URL(given).copy_with(fragment=None)
        host = host_of(url).lower()
    except (httpx2.InvalidURL, UnicodeError, ValueError) as error:
        raise fetch_error(f"the URL cannot be read ({error})") from error
    if url.scheme not in PORTS:
        raise fetch_error(
            f"only http and https are fetched, not {url.scheme or 'a URL without scheme'}"
        )
    if url.userinfo or "@" in url.netloc.decode("ascii", "replace"):
        raise fetch_error("the URL holds a user name or password")
    if url.port not in (None, *PORTS.values()):
        raise fetch_error(f"only the ports 80 and 443 are fetched, not {url.port}")
    return url.copy_with(host=_checked_host(host))


def host_of(url: httpx2.URL) -> str:
    """The host as it is looked up and sent: an international name in its ASCII form.

    `url.host` shows such a name decoded; as a header it cannot be sent, and a resolver may encode
    it by older rules, as another name.
    """
    return url.raw_host.decode("ascii")


def allows(patterns: Sequence[str], host: str) -> bool:
    """Whether a host is on the list: by its name, as a subdomain of `*.domain`, or by `*`.

    International names may be written in either form in the list; `host` is as of `host_of`.
    """
    return any(_fits(_encoded(pattern.strip().lower().rstrip(".")), host) for pattern in patterns)


def fetch_error(why: str) -> ToolFailure:
    """The failure of a page that is not fetched."""
    return ToolFailure(f"Not fetched: {why}.", reason="refused")


def _encoded(pattern: str) -> str:
    if pattern.isascii():
        return pattern
    star = "*." if pattern.startswith("*.") else ""
    try:
        return star + host_of(httpx2.URL(scheme="https", host=pattern.removeprefix(star)))
    except httpx2.InvalidURL:
        return pattern  # no host has this name; who is refused is shown the list


def _fits(pattern: str, host: str) -> bool:
    if pattern.startswith("*."):
        return host.endswith(pattern[1:]) and len(host) > len(pattern[1:])
    return pattern in ("*", host)


def _checked_host(host: str) -> str:
    """The host if it is a plain address, or a name with a dot and plain labels."""
    if ":" in host:
        return _checked_literal(host)
    name = host.removesuffix(".")
    labels = name.split(".")
    if labels[-1].isdigit() or re.fullmatch(r"0x[0-9a-f]*", labels[-1]):
        # Browsers accept 0x7f.1, 2130706433 and 017700000001 as addresses; here only a.b.c.d is.
        return _checked_literal(name)
    if len(name) > _HOST_CHARACTERS or not all(map(_LABEL.fullmatch, labels)):
        raise fetch_error(f"{host[:80]!r} is no host name")
    if len(labels) < 2 or any(name.endswith(f".{local}") for local in _LOCAL_NAMES):
        raise fetch_error(f"{host[:80]!r} is no name of the public web")
    return name


def _checked_literal(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        raise fetch_error(f"{host[:80]!r} is no address in its plain form") from None
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise fetch_error(f"{host[:80]!r} names a network interface")
    return str(address)


def is_address(text: str) -> bool:
    """Whether a host is an address and not a name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_public(text: str) -> bool:
    """Whether an address may be connected to: only global unicast is public.

    An IPv4 address inside an IPv6 one must itself be public if it is NAT64; all other forms that
    contain one are refused.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return _is_public_v4(address)
    return _is_public_v6(address)


def _is_public_v4(address: IPv4Address) -> bool:
    # `is_global` alone is true for multicast.
    special = address.is_multicast or address.is_reserved or address.is_private
    return address.is_global and not special and not any(address in net for net in _NOT_PUBLIC)


def _is_public_v6(address: IPv6Address) -> bool:
    number = int(address)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return _is_public_v4(IPv4Address(number & 0xFFFFFFFF))
    tunnelled = any(address in net for net in _TUNNELS) or (number >> 32) & 0xFFFFFFFF in _ISATAP
    return address in _GLOBAL_UNICAST and address.is_global and not tunnelled
