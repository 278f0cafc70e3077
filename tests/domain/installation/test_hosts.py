"""Names of doors: what a `Host` header says, and whether it is meant for us."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.installation.hosts import (
    LOOPBACK_NAMES,
    answers_to,
    host_in,
    host_of_origin,
    names_of,
)


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("127.0.0.1:8233", "127.0.0.1"),
        ("LOCALHOST", "localhost"),
        ("[::1]:80", "::1"),
        ("a.b-c_d", "a.b-c_d"),
        ("", None),
        ("a b", None),
        ("127.0.0.1@evil.example", None),
        ("127.0.0.1:x", None),
        ("127.0.0.1:1:2", None),
        ("evil.example/127.0.0.1", None),
        ("[::1", None),
    ],
)
def test_the_host_of_a_header(authority: str, host: str | None) -> None:
    assert host_in(authority) == host


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://localhost:8233", "localhost"),
        ("https://UI.example.org", "ui.example.org"),
        ("null", None),
        ("http://user@localhost", None),
        ("http://localhost/path", None),
        ("file://localhost", None),
    ],
)
def test_the_host_of_an_origin(origin: str, host: str | None) -> None:
    assert host_of_origin(origin) == host


@given(st.lists(st.text(max_size=40), max_size=3))
def test_only_one_name_of_ours_is_answered(hosts: list[str]) -> None:
    meant = answers_to(hosts, LOOPBACK_NAMES)
    assert meant == (len(hosts) == 1 and host_in(hosts[0]) in LOOPBACK_NAMES)


def test_a_door_on_loopback_knows_its_names_and_one_on_a_network_is_told() -> None:
    assert names_of("127.0.0.1") == LOOPBACK_NAMES
    assert names_of("127.0.0.2", ["API.example.org"]) == LOOPBACK_NAMES | {
        "127.0.0.2",
        "api.example.org",
    }
    assert names_of("0.0.0.0") is None
    assert names_of("0.0.0.0", ["api.example.org"]) == LOOPBACK_NAMES | {
        "0.0.0.0",
        "api.example.org",
    }
