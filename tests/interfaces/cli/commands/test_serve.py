"""The commands of the REST API: serving, and tokens from making to revoking."""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perdure.adapters.stores.open_stores import open_stores
from perdure.domain.installation.access import ApiToken, Credentials, digest_of
from perdure.domain.installation.single_sign_on import token_id
from tests.interfaces.cli.memory import Installation


@pytest.fixture
def world(tmp_path: Path) -> Installation:
    return Installation(folder=tmp_path, remembers=True)


def told(world: Installation) -> dict[str, object]:
    """The last JSON document of the output."""
    return json.loads(world.out.splitlines()[-1])


def test_a_token_is_shown_once_and_works(world: Installation) -> None:
    assert world.run("api", "token", "create", "page", "--days", "3", "--json") == 0
    made = told(world)
    assert made["scopes"] == ["read", "operate", "answer"]
    credentials = Credentials.read(str(made["token"]))
    assert credentials is not None and credentials.id == made["id"]
    assert world.run("api", "token", "list", "--json") == 0
    assert credentials.secret not in world.out.splitlines()[-1]
    assert "digest" not in world.out


def test_the_list_says_what_is_usable(world: Installation) -> None:
    assert world.run("api", "token", "list") == 0
    assert "No tokens" in world.out
    assert world.run("api", "token", "create", "page", "--scope", "read") == 0
    found = re.search(r"perdure_([0-9a-f]{8})_", world.out)
    assert found is not None
    assert world.run("api", "token", "revoke", found[1]) == 0
    assert world.run("api", "token", "revoke", found[1]) == 4
    assert world.run("api", "token", "list") == 0
    assert re.search(rf"{found[1]}\s+page\s+read\s+revoked", world.out)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("page", "--scope", "reed"), "Did you mean read?"),
        (("", "--scope", "read"), "1 to 100"),
        (("x" * 101,), "1 to 100"),
        (("page", "--days", "0"), "--days 0 is out of range"),
        (("page", "--days", "999999999"), "is out of range"),
        (("page", "--days", "3", "--forever"), "contradict"),
    ],
)
def test_wrong_wishes_are_explained(world: Installation, words: tuple[str, ...], said: str) -> None:
    assert world.run("api", "token", "create", *words) == 2
    assert said in world.err


@pytest.mark.parametrize(
    ("words", "days"),
    [((), 90), (("--days", "3"), 3), (("--forever",), None)],
    ids=["setting", "days", "forever"],
)
def test_a_token_expires_as_told_else_as_set(
    world: Installation, words: tuple[str, ...], days: int | None
) -> None:
    assert world.run("api", "token", "create", "page", *words, "--json") == 0
    made = told(world)
    if days is None:
        assert made["expires_at"] is None
    else:
        ends, since = (datetime.fromisoformat(str(made[of])) for of in ("expires_at", "created_at"))
        assert abs(ends - since - timedelta(days=days)) < timedelta(minutes=1)
    assert world.run("api", "token", "list") == 0
    assert ("never" if days is None else str(made["expires_at"])[:10]) in world.out


def test_a_rotated_token_keeps_its_id_and_name(world: Installation) -> None:
    assert world.run("api", "token", "create", "page", "--json") == 0
    made = told(world)
    assert (
        world.run("api", "token", "rotate", str(made["id"]), "--overlap-hours", "2", "--json") == 0
    )
    new = told(world)
    assert (new["id"], new["name"], new["scopes"]) == (made["id"], made["name"], made["scopes"])
    assert new["token"] != made["token"] and new["former_until"] is not None
    assert "former_digest" not in world.out
    assert world.run("api", "token", "rotate", "ffffffff") == 4
    assert world.run("api", "token", "rotate", str(made["id"]), "--overlap-hours", "-1") == 2
    assert world.run("api", "token", "revoke", str(made["id"]), "--json") == 0
    assert json.loads(world.out) == {"type": "token_revoked", "revoked": made["id"]}
    assert world.run("api", "token", "rotate", str(made["id"])) == 5
    assert "was revoked" in world.err


def test_a_person_who_signs_in_elsewhere_has_no_secret_to_rotate(world: Installation) -> None:
    person = ApiToken(
        id=token_id("https://login.example.org", "u-1"),
        name="alice@example.org",
        scopes=("read",),
        digest=digest_of("nobody knows it"),
        created_at=datetime(2026, 11, 1, tzinfo=UTC),
    )

    async def sign_in() -> None:
        stores = await open_stores(world.folder / "home")
        await stores.access.add_token(person)
        await stores.close()

    asyncio.run(sign_in())
    assert world.run("api", "token", "rotate", person.id) == 5
    assert "alice@example.org" in world.err
    assert f"perdure api token revoke {person.id}" in world.err


@pytest.mark.parametrize("words", ["--folder=~/work", "--folder=work"])
def test_a_token_is_bound_to_a_folder_of_the_home_too(
    world: Installation, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    (world.folder / "work").mkdir()
    monkeypatch.setenv("HOME", str(world.folder))
    assert world.run("api", "token", "create", "page", words, "--json") == 0
    assert told(world)["folders"] == [str((world.folder / "work").resolve())]


def test_serving_says_where(world: Installation) -> None:
    assert world.run("api", "serve", "--port", "9000", "--json") == 0
    assert told(world) == {"type": "api", "url": "http://127.0.0.1:9000"}
    assert world.run("api", "--host", "0.0.0.0") == 0
    assert world.calls[-1] == "api 0.0.0.0 None"
