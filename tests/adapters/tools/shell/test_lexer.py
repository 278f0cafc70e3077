"""The lexer refuses whatever a shell would interpret, and agrees with one on the rest."""

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.adapters.tools.shell.grammar import MAX_COMMAND, MAX_WORDS, split
from perdure.domain.foundation.errors import ToolFailure

ACCEPTED = {
    "words": ("ls -la  src", ["ls", "-la", "src"]),
    "single": ("grep 'a|b' x", ["grep", "a|b", "x"]),
    "double": ('grep "a b" x', ["grep", "a b", "x"]),
    "joined": ("cat a'b c'd", ["cat", "ab cd"]),
    "empty": ("grep '' x", ["grep", "", "x"]),
    "glob quoted": ("find . -name '*.py'", ["find", ".", "-name", "*.py"]),
    "backslash in double": (r'grep "a\.b" x', ["grep", r"a\.b", "x"]),
    "revision": ("git show HEAD~3", ["git", "show", "HEAD~3"]),
    "parent": ("git show HEAD^", ["git", "show", "HEAD^"]),
    "equals": ("git log --max-count=3", ["git", "log", "--max-count=3"]),
    "umlaut": ("cat größe.txt", ["cat", "größe.txt"]),
}
META = list("|&;<>()$`\\!*?[]{}#")


@pytest.mark.parametrize(("command", "words"), ACCEPTED.values(), ids=ACCEPTED)
def test_accepted(command, words):
    assert [word.text for word in split(command)] == words


@pytest.mark.parametrize("meta", META)
@pytest.mark.parametrize("form", ["cat a{m}b", "cat {m}b", "cat a {m} b", "{m}cat a", "cat a{m}"])
def test_metacharacters_outside_quotes(form, meta):
    with pytest.raises(ToolFailure):
        split(form.replace("{m}", meta))


@pytest.mark.parametrize("start", ["~", "^", "=", "%", "~root/x", "=ls", "^a^b"])
def test_characters_that_expand_at_the_start_of_a_word(start):
    with pytest.raises(ToolFailure):
        split(f"cat {start}")


@pytest.mark.parametrize("inside", ["$HOME", "$(id)", "`id`", "!!", "\\$", "\\\\", '\\"', "a\\"])
def test_expansions_inside_double_quotes(inside):
    with pytest.raises(ToolFailure):
        split(f'cat "{inside}"')


CONTROLS = ["\n", "\r", "\0", "\t", "\x0b", "\x1b", "\x7f", "\x85", "\u2028", "\u2029", "\u200b"]
CONTROLS += ["\u202e", "\ufeff", "\u00ad", "\ue000"]


@pytest.mark.parametrize(
    "character", [*CONTROLS, "\u202e", "\ufeff", "\u00ad", "\ue000"], ids=ascii
)
@pytest.mark.parametrize("form", ["cat a{c}b", "cat{c}a", "cat 'a{c}b'", "{c}cat a", "cat a{c}"])
def test_control_and_format_characters_anywhere(form, character):
    with pytest.raises(ToolFailure):
        split(form.replace("{c}", character))


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000", "\u1680"], ids=ascii)
def test_unusual_spaces(space):
    with pytest.raises(ToolFailure):
        split(f"cat{space}a")


@pytest.mark.parametrize(
    "command",
    ["", "   ", "cat 'a", 'cat "a', "cat a'", "x" * (MAX_COMMAND + 1), "a " * (MAX_WORDS + 1)],
    ids=["empty", "blank", "open single", "open double", "open at end", "long", "many"],
)
def test_shapes(command):
    with pytest.raises(ToolFailure):
        split(command)


@example('""')
@given(st.text(st.sampled_from("ab -'\"$`\\|;&<>*~=#!{}\n\r\t\0é/."), max_size=30))
def test_accepted_lines_mean_the_same_to_a_shell(command):
    try:
        words = [word.text for word in split(command)]
    except ToolFailure:
        return
    assert words == shlex.split(command, posix=True)


@given(st.text(max_size=60))
def test_any_text_is_split_or_refused(command):
    try:
        words = split(command)
    except ToolFailure:
        return
    outside = "".join(word.text for word in words if word.bare)
    assert not set(outside) & set(META)
