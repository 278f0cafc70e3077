"""Diffs that people review before they approve a write."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from perdure.domain.foundation.diffs import unified

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12)


def applied(diff: str, before: str) -> str:
    """What a reader of the diff takes the new text for."""
    if not diff:
        return before
    rows = diff.split("\n")[3:]
    old = [row[1:] for row in rows if row[:1] in {" ", "-"}]
    new = [row[1:] for row in rows if row[:1] in {" ", "+"}]
    lines = before.split("\n")
    start = int(diff.split("\n")[2].split(",")[0].removeprefix("@@ -")) - 1
    assert lines[start : start + len(old)] == old
    return "\n".join([*lines[:start], *new, *lines[start + len(old) :]])


def test_a_change_shows_its_surroundings():
    before = "".join(f"line {number}\n" for number in range(1, 11))
    after = before.replace("line 5\n", "line five\nand more\n")
    assert unified(before, after, path="a/b.txt") == snapshot("""\
--- a/a/b.txt
+++ b/a/b.txt
@@ -2,7 +2,8 @@
 line 2
 line 3
 line 4
-line 5
+line five
+and more
 line 6
 line 7
 line 8\
""")


def test_a_new_file_is_all_new():
    assert unified(None, "x\ny", path="n.txt") == snapshot("""\
--- /dev/null
+++ b/n.txt
@@ -1,0 +1,2 @@
+x
+y
\\ No newline at end of file\
""")


@given(LINES, LINES)
def test_a_diff_tells_the_whole_change(old, new):
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    assert applied(unified(before, after, path="x"), before) == after


@pytest.mark.parametrize("count", [4_000, 40_000])
def test_hostile_texts_take_no_time(count):
    before = "same\n" * count
    after = "".join(f"{'same' if n % 3 else n}\n" for n in range(count))
    began = time.monotonic()
    unified(before, after, path="x")
    assert time.monotonic() - began < 10
