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


def test_the_trail_is_written_elsewhere_as_lines(world: Installation) -> None:
    for name in ("one", "two", "three"):
        assert world.run("api", "token", "create", name) == 0
    assert world.run("audit", "--jsonl", "--since", "2020-01-01", "--action", "token_made") == 0
    lines = [json.loads(line) for line in world.out.splitlines()]
    assert [line["about"].split("'")[1] for line in lines] == ["one", "two", "three"]
    assert {"id", "at", "last_at", "action", "outcome", "who", "about"} <= lines[0].keys()
    assert world.run("audit", "--jsonl", "--since", "2999-01-01T00:00Z") == 0
    assert world.out == ""


def test_a_list_of_tokens_tells_when_each_was_used(world: Installation) -> None:
    assert world.run("api", "token", "create", "page") == 0
    assert world.run("api", "token", "list") == 0
    assert "never" in world.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--action", "logins"), "Did you mean login"),
        (("--since", "soon"), "--since"),
        (("--limit", "0"), 'Invalid value "0" for --limit'),
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
