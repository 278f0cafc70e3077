"""The operator's book: a task picks from it, and never adds to it."""

import pytest
from pydantic import ValidationError

from perdure.adapters.mcp.server_config import AllowedServers, NoServers, load_book
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.tools.mcp_servers import ServerSpec
from perdure.domain.turns.settings import ToolsSpec

BOOK = AllowedServers.model_validate(
    {
        "servers": {
            "git": {"command": ["mcp-server-git"], "env": ["TOKEN", "MORE"], "cwd": "workspace"},
            "docs": {"url": "https://docs.example/mcp", "headers_from": {"Authorization": "DOCS"}},
        }
    }
)


@pytest.mark.parametrize(
    "asked",
    [
        "git",
        {"name": "git", "command": ["mcp-server-git"]},
        {"name": "git", "env": ["TOKEN"]},
        {"name": "git", "cwd": "workspace"},
        {"name": "docs", "url": "https://docs.example/mcp"},
        {"name": "docs", "headers_from": {}},
    ],
    ids=str,
)
def test_what_the_operator_allows_is_admitted(asked):
    assert BOOK.admitted(ServerSpec.model_validate(asked))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("fetch", "no MCP server named 'fetch'; it has docs, git"),
        ({"name": "git", "command": ["rm", "-rf", "/"]}, "command differ"),
        ({"name": "git", "command": ["mcp-server-git", "--more"]}, "command differ"),
        ({"name": "git", "env": ["ANTHROPIC_API_KEY"]}, "env differ"),
        ({"name": "git", "cwd": "/"}, "cwd differ"),
        ({"name": "docs", "url": "http://169.254.169.254/"}, "url differ"),
        ({"name": "docs", "headers_from": {"X-Leak": "SECRET"}}, "headers_from differ"),
        ({"name": "git", "url": "https://docs.example/mcp"}, "url differ"),
    ],
    ids=str,
)
def test_anything_else_is_refused(asked, said):
    with pytest.raises(InvalidInput, match=said):
        BOOK.admitted(ServerSpec.model_validate(asked))


def test_a_task_may_ask_for_fewer_variables():
    assert BOOK.admitted(ServerSpec(name="git", env=("TOKEN",))).env == ("TOKEN",)


def test_an_empty_book_allows_nothing():
    with pytest.raises(InvalidInput, match="it has none"):
        NoServers().accesses([ServerSpec(name="git")])
    assert NoServers().accesses([]) == frozenset()


def test_a_file_that_is_not_there_is_an_empty_book(tmp_path):
    assert load_book(tmp_path / "mcp.yaml").servers == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("servers: {git: {}}", "servers.git: .*either `command`"),
        ("servers: {git: {command: [x], url: 'https://a'}}", "either `command`"),
        ("servers: {git: {command: [x], acces: read}}", "Did you mean access"),
        ("servers: {Git Hub: {command: [x]}}", "servers.Git Hub"),
        ("servers: {git: {command: [x], access: all}}", "servers.git.access"),
        ("servers: [", "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path, text, said):
    path = tmp_path / "mcp.yaml"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=said) as caught:
        load_book(path)
    assert str(caught.value).startswith(f"The list of MCP servers {path} ")


@pytest.mark.parametrize(
    "mcp",
    [
        ["git", "git"],
        [{"name": "Git"}],
        [{"name": "git", "url": "https://a", "command": ["x"]}],
        [{"command": ["x"]}],
    ],
    ids=["twice", "capital", "two ways", "no name"],
)
def test_a_task_with_a_wrong_entry_is_refused(mcp):
    with pytest.raises(ValidationError):
        ToolsSpec.model_validate({"mcp": mcp})
