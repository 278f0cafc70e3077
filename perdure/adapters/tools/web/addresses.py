"""Which addresses are the public internet: not this host, not its networks, not by a detour."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# Relays of 6to4 and Teredo would connect to an IPv4 address that the address carries.
_TUNNELS = (IPv6Network("2002::/16"), IPv6Network("2001::/23"))
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
_NOT_PUBLIC = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv4Network("168.63.129.16/32"),  # a cloud's own services, under a public address
)


def is_address(text: str) -> bool:
    """Whether a host is an address by itself, not a name."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_public(text: str) -> bool:
    """Whether an address, as a resolver gives it, may be connected to: global unicast alone.

    An IPv4 address inside an IPv6 one must be public itself (NAT64); every other form that embeds
    one is refused.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    if isinstance(address, IPv4Address):
        return _is_public_v4(address)
    return _is_public_v6(address)


def _is_public_v4(address: IPv4Address) -> bool:
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
