"""Which addresses are the public internet, in every form that leads elsewhere."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.adapters.tools.web.urls import is_public

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808"]
NOT_PUBLIC = [
    "127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255",
    "192.168.1.1", "169.254.169.254", "100.64.0.1", "100.100.100.200", "192.0.0.8", "192.0.2.1",
    "198.18.0.1", "203.0.113.9", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.88.99.1",
    "168.63.129.16", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1",
    "ff02::1", "2001:db8::1", "100::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1",
    "::ffff:8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::808:808", "2002:7f00:1::1", "2002:808:808::1", "2001:0:4136:e378::1",
    "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:a00:1", "2606:4700::1%lo", "", "localhost",
    "0x7f.1", "2130706433", "0177.0.0.1",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_everything_else(address: str) -> None:
    assert not is_public(address)


@given(st.ip_addresses(v=4, network="0.0.0.0/0"))
def test_an_ipv4_address_is_public_as_it_is_or_carried_by_nat64_alone(address: IPv4Address) -> None:
    number = int(address)
    assert is_public(str(IPv6Address((0x64FF9B << 96) | number))) == is_public(str(address))
    for carrier in (0, 0xFFFF << 32, 0xFFFF << 48, (0x2606_4700 << 96) | (0x5EFE << 32)):
        assert not is_public(str(IPv6Address(carrier | number)))


@given(st.ip_addresses(v=6))
def test_no_public_ipv6_address_is_outside_global_unicast(address: IPv6Address) -> None:
    if is_public(str(address)) and not str(address).startswith("64:ff9b::"):
        assert int(address) >> 125 == 0b001
