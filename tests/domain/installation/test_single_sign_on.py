"""Who an identity provider's people are here, and what they may do."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.installation.access import SCOPES, ApiToken, Credentials, Scope
from perdure.domain.installation.single_sign_on import (
    IdentityProvider,
    Person,
    SingleSignOn,
    checked_groups,
    renewed,
    stands_for_person,
    token_id,
)

NOW = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass
class Named:
    issuer: str = "https://login.example.org"


def sign_on(everybody: tuple[Scope, ...] = (), **groups: tuple[Scope, ...]) -> SingleSignOn:
    provider = cast("IdentityProvider", Named())
    return SingleSignOn(provider=provider, groups={"*": everybody, **groups})


def token(found: SingleSignOn, person: Person, secret: str = "s") -> ApiToken:
    return found.token(person, secret=secret, now=NOW, hours=12)


@pytest.mark.parametrize(
    ("groups", "scopes"),
    [
        (("readers",), ("read",)),
        (("readers", "approvers"), ("read", "answer")),
        (("approvers", "nobody knows"), ("answer",)),
        (("Readers", "boss"), ("admin",)),
    ],
)
def test_scopes_are_those_of_all_groups(groups: tuple[str, ...], scopes: tuple[str, ...]) -> None:
    found = sign_on(readers=("read",), approvers=("answer",), boss=("admin",))
    assert token(found, Person(subject="1", name="a", groups=groups)).scopes == scopes


def test_everybody_has_what_the_star_gives() -> None:
    found = sign_on(("read",), boss=("admin",))
    assert token(found, Person(subject="1", name="a")).scopes == ("read",)
    assert token(found, Person(subject="1", name="a", groups=("boss",))).scopes == ("read", "admin")


def test_nobody_calls_a_group_of_theirs_everybody() -> None:
    assert checked_groups(["*", "a", 7, None, {"x": 1}]) == ("a",)


def test_who_has_no_group_is_told_which_there_are() -> None:
    with pytest.raises(NotAllowed, match=r"'alice' has no access.*'cooks'") as caught:
        token(sign_on(boss=("admin",)), Person(subject="1", name="alice", groups=("cooks",)))
    assert "PERDURE_OIDC_GROUPS" in caught.value.cure


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_two_people_are_never_one(a: str, b: str, c: str, d: str) -> None:
    assert (token_id(a, b) == token_id(c, d)) is ((a, b) == (c, d))


@given(st.text())
def test_no_bearer_token_is_one_of_a_person(secret: str) -> None:
    found = token_id("https://login.example.org", secret)
    assert stands_for_person(found)
    assert Credentials.read(f"perdure_{found}_{'x' * 43}") is None


@given(st.text(min_size=1))
def test_every_name_is_one_line_that_hides_nothing(name: str) -> None:
    made = token(sign_on(("read",)), Person(subject="u", name=name))
    assert made.name == " ".join(made.name.split())
    assert made.name.isprintable()
    assert 1 <= len(made.name) <= 100


def test_another_sign_in_leaves_sessions_alone_while_the_scopes_stay() -> None:
    found = sign_on(a=("read",), b=("answer",))
    first = token(found, Person(subject="1", name="old name", groups=("a",)))
    again = token(found, Person(subject="1", name="new name", groups=("a",)), secret="t")
    more = token(found, Person(subject="1", name="new name", groups=("a", "b")), secret="t")
    assert first.id == again.id == more.id
    assert renewed(first, again).digest == first.digest
    assert renewed(first, again).name == "new name"
    assert renewed(first, more).digest == more.digest, "sessions with fewer or more scopes end"
    assert renewed(first, more).scopes == ("read", "answer")


def test_who_was_shut_out_stays_out() -> None:
    known = token(sign_on(a=tuple(SCOPES)), Person(subject="1", name="alice", groups=("a",)))
    revoked = known.model_copy(update={"revoked_at": NOW + timedelta(hours=1)})
    with pytest.raises(NotAllowed, match="revoked"):
        renewed(revoked, known)


def test_another_provider_knows_other_people() -> None:
    first = sign_on(a=("read",))
    other = replace(first, provider=cast("IdentityProvider", Named("https://elsewhere.example")))
    person = Person(subject="1", name="alice", groups=("a",))
    assert token(first, person).id != token(other, person).id
