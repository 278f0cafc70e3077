"""Which host names a server answers to; this defeats DNS rebinding.

A browser lets a page talk to the host that it came from. The owner of a name can point it to
127.0.0.1 later, and the page then reaches servers of this machine as if they were its own. But it
cannot change the `Host` header, which still has the page's own name.
"""

import ipaddress
import re
from collections.abc import Iterable

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::[0-9]{1,5})?")
_ORIGIN = re.compile(r"https?://([^/?#\s@]{1,260})")


def host_in(authority: str) -> str | None:
    """The host of a `Host` header, without its port and in lower case; None when it is none."""
    found = _AUTHORITY.fullmatch(authority)
    if found is None:
        return None
    host = found.group(1).lower()
    if not host.startswith("["):
        return host
    try:
        ipaddress.IPv6Address(host[1:-1])
    except ValueError:  # such as `[::::]`
        return None
    return host[1:-1]


def host_of_origin(origin: str) -> str | None:
    """The host of an `Origin` header; None for `null` and what cannot be read."""
    found = _ORIGIN.fullmatch(origin)
    return None if found is None else host_in(found.group(1))


def answers_to(hosts: Iterable[str], names: frozenset[str]) -> bool:
    """Whether a request with these `Host` headers (one, for an honest one) is meant for us."""
    found = [host_in(host) for host in hosts]
    return len(found) == 1 and found[0] in names


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(host: str, more: Iterable[str] = ()) -> frozenset[str] | None:
    """The names that an interface on this address answers to; None: it cannot tell, and takes all.

    Args:
        host: where it listens.
        more: names that its operator gave it, such as that of a proxy in front.
    """
    named = frozenset(name.lower() for name in more)
    if named or is_loopback(host):
        return named | LOOPBACK_NAMES | {host.lower()}
    return None
