"""Tokens: their text, their scopes, and when they open anything."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.access import (
    SCOPES,
    ApiToken,
    Credentials,
    Scope,
    digest_of,
    scopes_of,
)
from perdure.domain.errors import InvalidInput

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "x" * 43


def token(*scopes: Scope, **more: datetime) -> ApiToken:
    return ApiToken(
        id="00c0ffee", name="n", scopes=scopes, digest=digest_of(SECRET), created_at=NOW, **more
    )


@pytest.mark.parametrize(
    ("given", "grants"),
    [
        (("read",), {"read"}),
        (("operate",), {"operate", "read"}),
        (("answer",), {"answer", "read"}),
        (("execute",), {"execute"}),
        (("admin",), set(SCOPES)),
    ],
)
def test_scopes_bring_what_they_need(given: tuple[Scope, ...], grants: set[Scope]) -> None:
    assert token(*given).grants == grants


@pytest.mark.parametrize(
    ("more", "usable"),
    [
        ({}, True),
        ({"revoked_at": NOW}, False),
        ({"expires_at": NOW}, False),
        ({"expires_at": NOW + timedelta(seconds=1)}, True),
    ],
)
def test_a_token_ends(more: dict[str, datetime], usable: bool) -> None:
    assert token("read", **more).usable(NOW) is usable


def test_only_its_own_secret_opens_a_token() -> None:
    assert token("read").opens(SECRET)
    assert not token("read").opens(SECRET[:-1] + "y")


def test_a_token_reads_back() -> None:
    known = Credentials(id="00c0ffee", secret=SECRET)
    assert Credentials.read(known.text) == known


@given(st.text())
def test_any_other_text_is_no_token(text: str) -> None:
    assert Credentials.read(text) is None


@pytest.mark.parametrize("names", [[], ["reed"], ["read", ""]])
def test_unknown_scopes_are_refused(names: list[str]) -> None:
    with pytest.raises(InvalidInput, match=r"There are read, operate|needs a scope"):
        scopes_of(names)


def test_scopes_come_once_in_order() -> None:
    assert scopes_of(["answer", "read", "answer"]) == ("read", "answer")
