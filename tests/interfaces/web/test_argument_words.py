"""Arguments of calls that wait for approval, in words for people."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.adapters.tools.shell.full import SHELL_FULL
from perdure.adapters.tools.write_files import fs_edit, fs_write
from perdure.interfaces.web.inbox.argument_words import NAMES, in_words
from perdure.interfaces.web.inbox.call_view import Argument

HASH = "ab" * 32


@pytest.mark.parametrize("tool", ["fs.write", "fs.edit"])
@pytest.mark.parametrize(
    ("value", "shown", "words"),
    [
        ("absent", "", "nothing: the file is new"),
        (HASH, f"{HASH[:16]}…", "if the file changed since, nothing is written"),
        (f"sha256:{HASH}", f"{HASH[:16]}…", "if the file changed since, nothing is written"),
        ("none", "none", ""),
    ],
)
def test_what_a_write_replaces_is_said(tool: str, value: str, shown: str, words: str) -> None:
    given = [Argument("expected_hash", value), Argument("path", "notes.md")]
    file, replaces = in_words(tool, given)
    assert (file.label, file.value) == ("File", "notes.md")
    assert (replaces.label, replaces.name) == ("Replaces", "expected_hash")
    assert (replaces.short or replaces.value) == shown
    assert words in replaces.words and bool(words) == bool(replaces.words)


def test_an_argument_of_another_tool_keeps_its_meaning() -> None:
    (hash_, rows) = in_words(
        "crm.merge", [Argument("expected_hash", "absent"), Argument("most_rows", "3")]
    )
    assert (hash_.label, hash_.value, hash_.words) == ("Expected hash", "absent", "")
    assert (rows.label, rows.name, rows.value) == ("Most rows", "most_rows", "3")


NAME = st.from_regex(r"[A-Za-z_][\w.-]*", fullmatch=True)


@given(
    tool=st.sampled_from([*NAMES, "some.tool"]),
    given_=st.dictionaries(NAME, st.text(max_size=80), max_size=5),
)
def test_no_argument_is_left_out(tool: str, given_: dict[str, str]) -> None:
    shown = in_words(tool, [Argument(name, value) for name, value in given_.items()])
    assert {one.name: one.value for one in shown} == {
        name: "" if (name, value) == ("expected_hash", "absent") and tool in FILES else value
        for name, value in given_.items()
    }
    assert all(one.label.strip() for one in shown)


FILES = ("fs.write", "fs.edit")


def test_the_named_arguments_are_those_of_the_tools() -> None:
    for tool in (fs_write, fs_edit):
        assert set(NAMES[tool.fact.name]) == set(tool.arguments.model_fields)
    assert SHELL_FULL in NAMES
