"""Which paths a tool may name."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.adapters.files.paths import is_safe_tree_path, parse
from perdure.domain.foundation.errors import ToolFailure

REFUSED_ALWAYS = {
    "empty": "",
    "absolute": "/etc/passwd",
    "double slash": "//etc/passwd",
    "parent": "..",
    "parent inside": "a/../../b",
    "parent at end": "a/..",
    "nul": "a\0b",
    "newline": "a\nb",
    "carriage return": "a\rb",
    "escape": "a\x1b[2Jb",
    "delete": "a\x7fb",
    "line separator": "a\u2028b",
    "right to left": "a\u202eb",
    "lone surrogate": "a\udc80b",
    "long name": "a" * 256,
    "long path": "/".join(["a" * 100] * 50),
    "deep": "a/" * 100 + "f.txt",
    "git": ".git/config",
    "git alone": ".git",
    "git deep": "sub/.git/hooks/post-checkout",
    "git upper": ".GIT/config",
    "git dot": ".git./config",
    "git blank": ".git /config",
    "git zero width": ".g\u200cit/config",
    "git full width": ".\uff47it/config",
    "git short name": "GIT~1/config",
    "mercurial": ".hg/hgrc",
    "subversion": "sub/.svn/wc.db",
    "jujutsu": ".jj/repo/config.toml",
    "sapling": ".SL/config",
    "bazaar": ".bzr/branch/branch.conf",
    "dotenv": ".env",
    "dotenv deep": "app/.env",
    "dotenv local": ".env.local",
    "dotenv upper": ".ENV",
    "dotenv named": "production.env",
}
REFUSED_FOR_WRITES = {
    "github": ".github/workflows/ci.yml",
    "github deep": "a/.github/x",
    "github upper": ".GitHub/x",
    "gitlab": ".gitlab-ci.yml",
    "circle": ".circleci/config.yml",
    "jenkins": "Jenkinsfile",
    "hooks": ".husky/pre-commit",
    "direnv": ".envrc",
    "an agent's hooks": ".claude/settings.json",
    "an editor's servers": ".cursor/mcp.json",
    "servers of a project": ".mcp.json",
    "scripts of packages": "web/.npmrc",
    "a package manager's plugins": ".yarnrc.yml",
    "a compiler's wrapper": ".cargo/config.toml",
    "the same by its old name": "crates/.Cargo/config",
    "hooks of a manager": "lefthook.yml",
    "editor": ".vscode/tasks.json",
    "modules": ".gitmodules",
    "hooks by a setting": ".githooks/pre-commit",
    "an editor's script": ".exrc",
    "another editor's script": "src/.nvim.lua",
    "a package manager itself": ".yarn/releases/yarn-4.cjs",
    "a loader of packages": ".pnp.cjs",
}
ALLOWED = {
    "plain": ("a.txt", ("a.txt",)),
    "dot": (".", ()),
    "dot slash": ("./a/b", ("a", "b")),
    "slashes": ("a//b/", ("a", "b")),
    "blank": ("my notes.txt", ("my notes.txt",)),
    "umlaut": ("größe.md", ("größe.md",)),
    "dots in names": ("a..b/...", ("a..b", "...")),
    "gitignore": (".gitignore", (".gitignore",)),
    "git as prefix": (".gitx/a", (".gitx", "a")),
    "sample": (".env.example", (".env.example",)),
    "environment": ("environment.py", ("environment.py",)),
}


@pytest.mark.parametrize("use", ["read", "write"])
@pytest.mark.parametrize("path", REFUSED_ALWAYS.values(), ids=REFUSED_ALWAYS)
def test_refused_for_all_uses(path, use):
    with pytest.raises(ToolFailure):
        parse(path, use=use)


@pytest.mark.parametrize("path", REFUSED_FOR_WRITES.values(), ids=REFUSED_FOR_WRITES)
def test_what_runs_later_is_read_but_not_written(path):
    parse(path, use="read")
    with pytest.raises(ToolFailure) as caught:
        parse(path, use="write")
    assert caught.value.reason == "protected"


@pytest.mark.parametrize(("path", "parts"), ALLOWED.values(), ids=ALLOWED)
def test_allowed(path, parts):
    assert parse(path, use="read") == parts
    assert parse(path, use="write") == parts


@given(st.lists(st.sampled_from(["..", ".", "a", ".git", "", "/", "b c", ".env"]), min_size=1))
@example(["..", "a"])
def test_what_is_parsed_stays_inside(pieces):
    try:
        parts = parse("/".join(pieces), use="read")
    except ToolFailure:
        return
    assert not {"..", ".", "", ".git", ".env"} & set(parts)
    assert all("/" not in part for part in parts)


@given(st.text())
def test_any_text_is_parsed_or_refused(text):
    try:
        parts = parse(text, use="write")
    except ToolFailure:
        return
    assert "\0" not in "".join(parts)


@pytest.mark.parametrize("path", ["/a", "a//b", "../a", "a/..", ".git/x", "a/.Git/x", "", "a\0"])
def test_trees_hold_no_such_path(path):
    assert not is_safe_tree_path(path)


@pytest.mark.parametrize("path", ["a", "a/b", "odd\nname", "x\udc80"])
def test_trees_may_hold_odd_names(path):
    assert is_safe_tree_path(path)
