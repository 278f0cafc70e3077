"""`perdure audit`, and tokens that are bound."""

import json
from pathlib import Path

import pytest

from tests.interfaces.cli.memory import Installation
from tests.interfaces.cli.samples import RUN


@pytest.fixture
def world(tmp_path: Path) -> Installation:
    return Installation(tmp_path, remembers=True)


def test_the_life_of_a_token_is_in_the_trail(world: Installation) -> None:
    assert world.run("audit") == 0
    assert "Nothing is written down" in world.out
    assert world.run("api", "token", "create", "page", "--json") == 0
    made = json.loads(world.out)
    assert world.run("api", "token", "rotate", made["id"]) == 0
    assert world.run("api", "token", "revoke", made["id"]) == 0
    assert world.run("audit", "--json", "--since", "1h") == 0
    told = json.loads(world.out)["entries"]
    assert [entry["action"] for entry in reversed(told)] == [
        "token_made",
        "token_rotated",
        "token_revoked",
    ]
    assert {entry["who"] for entry in told} == {"ann"}
    assert made["token"] not in world.out
    assert world.run("audit", "--action", "token-made") == 0
    assert "token made" in world.out
    assert "token revoked" not in world.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--action", "logins"), "Did you mean login"),
        (("--since", "soon"), "--since"),
        (("--limit", "0"), "--limit 0"),
    ],
    ids=["an action", "a time", "a limit"],
)
def test_wrong_wishes_are_explained(world: Installation, words: tuple[str, ...], said: str) -> None:
    assert world.run("audit", *words) == 2
    assert said in world.err


def test_a_token_can_be_bound(world: Installation) -> None:
    make = ("api", "token", "create", "page", "--json")
    assert world.run(*make, "--run", RUN, "--folder", ".") == 0
    made = json.loads(world.out)
    assert (made["runs"], made["folders"]) == ([RUN], [str(world.folder.resolve())])
    assert world.run("api", "token", "list") == 0
    assert RUN in world.out
    assert world.run(*make, "--run", RUN, "--scope", "admin") == 2
    assert "cannot be bound" in world.err
    assert world.run(*make, "--folder", "nowhere") == 2
    assert "is not a folder" in world.err
