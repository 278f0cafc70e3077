"""Tokens: their text, their scopes, and when they open anything."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.foundation.errors import InvalidInput, NotAllowed
from perdure.domain.installation.access import (
    SCOPES,
    ApiToken,
    Credentials,
    Scope,
    digest_of,
    scopes_of,
    sources_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "x" * 43


def token(*scopes: Scope, **more: datetime) -> ApiToken:
    kept = ApiToken(
        id="00c0ffee", name="n", scopes=scopes, digest=digest_of(SECRET), created_at=NOW
    )
    return kept.model_copy(update=dict(more))


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


OLD, DAY = "o" * 43, timedelta(days=1)


@pytest.mark.parametrize(
    ("more", "secret", "standing"),
    [
        pytest.param({}, SECRET, "usable", id="its own"),
        pytest.param({}, SECRET[:-1] + "y", "wrong", id="another"),
        pytest.param({"expires_at": NOW}, SECRET, "expired", id="expired"),
        pytest.param({"expires_at": NOW}, OLD, "wrong", id="expired, another"),
        pytest.param({"revoked_at": NOW, "expires_at": NOW}, SECRET, "revoked", id="revoked"),
        pytest.param({"former_until": NOW + DAY}, OLD, "usable", id="former, in time"),
        pytest.param({"former_until": NOW}, OLD, "replaced", id="former, late"),
        pytest.param({"former_until": NOW}, SECRET, "usable", id="current, after that"),
        pytest.param(
            {"former_until": NOW + DAY, "revoked_at": NOW}, OLD, "revoked", id="former, revoked"
        ),
    ],
)
def test_what_a_secret_opens(more: dict[str, datetime], secret: str, standing: str) -> None:
    known = token("read", **more)
    if "former_until" in more:
        known = known.model_copy(update={"former_digest": digest_of(OLD)})
    assert known.standing(secret, NOW) == standing
    assert (known.end_notice(known.standing(secret, NOW)) is None) == (
        standing in {"usable", "wrong"}
    )


@given(lasts=st.none() | st.integers(1, 400), after=st.integers(0, 500), overlap=st.integers(0, 30))
def test_a_rotation_never_prolongs_the_secret_of_before(
    lasts: int | None, after: int, overlap: int
) -> None:
    expires = {} if lasts is None else {"expires_at": NOW + lasts * DAY}
    before, at = token("read", **expires), NOW + after * DAY
    new = before.rotated("n" * 43, at=at, expires_at=None, overlap=overlap * DAY)
    assert (new.id, new.name, new.scopes) == (before.id, before.name, before.scopes)
    assert new.standing("n" * 43, at) == "usable"
    for day in (0, 1, overlap, overlap + 1):
        then = at + day * DAY
        if new.standing(SECRET, then) == "usable":
            assert before.usable(then) and day < overlap


def test_a_revoked_token_gets_no_new_secret() -> None:
    with pytest.raises(NotAllowed, match="was revoked on 2026-01-01"):
        token("read", revoked_at=NOW).rotated("n", at=NOW, expires_at=None, overlap=DAY)


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


@pytest.mark.parametrize(
    ("run", "sources"),
    [
        ("news-2026-11-27T02:43:05Z", ("schedule news",)),
        ("news-of-2026-2026-11-27T02:43:05Z", ("schedule news-of-2026",)),
        ("exp-a-00001-1-loop", ("experiment exp-a",)),
        ("exp-a-100000-12-loop-2", ("experiment exp-a",)),
        ("exp-00002-1-x-00001-1-loop", ("experiment exp", "experiment exp-00002-1-x")),
        ("agent-tidy-7x", ()),
        ("news-2026-11-27", ()),
    ],
)
def test_the_id_of_a_run_tells_what_can_have_started_it(run: str, sources: tuple[str, ...]) -> None:
    assert sources_of(run) == sources
