"""Line diffs: how much changed, where, of which kind."""

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.domain.outputs.diff import SPANS_KEPT, around, changes_between, overlaps

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "longer line"]), max_size=30).map("\n".join)
PYTHON = 'import os\n\n\ndef f(x):\n    """Say x."""\n    # aside\n    y = x + 1\n    return y\n'


@pytest.mark.parametrize(
    ("old", "new", "fraction", "spans", "before"),
    [
        pytest.param("a\nb\nc\nd", "a\nb\nc\nd", 0.0, (), (), id="equal"),
        pytest.param("a\nb\nc\nd", "a\nb\nx\nc\nd", 0.2, ((3, 3),), ((3, 3),), id="one inserted"),
        pytest.param("a\nb\nc\nd", "x\na\nb\nc\nd", 0.2, ((1, 1),), ((1, 1),), id="at the front"),
        pytest.param("a\nb\nc\nd\ne", "a\nb\nd\ne", 0.2, ((3, 3),), ((3, 3),), id="one removed"),
        pytest.param("a\nb\nc\nd", "a\nX\nY\nd", 0.5, ((2, 3),), ((2, 3),), id="two replaced"),
        pytest.param("a", "b", 1.0, ((1, 1),), ((1, 1),), id="everything"),
        pytest.param("a \nb", "a\nb\n", 0.0, (), (), id="trailing space"),
    ],
)
def test_fraction_and_spans(old, new, fraction, spans, before) -> None:
    found = changes_between(old, new)
    assert (found.fraction, found.spans, found.before) == (fraction, spans, before)


@given(TEXTS, TEXTS)
def test_the_fraction_is_a_share_and_zero_for_equal_texts(old: str, new: str) -> None:
    found = changes_between(old, new)
    assert 0 <= found.fraction <= 1
    assert changes_between(old, old).fraction == 0
    assert (found.fraction == 0) == (not found.spans)


@given(TEXTS, st.integers(0, 30), st.text("xyz", min_size=1, max_size=5))
def test_one_inserted_line_is_one_changed_line(text: str, at: int, line: str) -> None:
    assume(text.strip())
    lines = text.rstrip().split("\n")
    new = [*lines[:at], line, *lines[at:]]
    assert changes_between("\n".join(lines), "\n".join(new)).fraction == round(1 / len(new), 4)


def test_a_long_text_with_blank_lines_is_compared_in_time() -> None:
    old, new = ("\n\n".join(f"{word} {n}" for n in range(900)) for word in ("old", "new"))
    began = time.process_time()
    changes = changes_between(old, f"old 0\n\n{new}\n\nold 899")
    assert time.process_time() - began < 5
    assert changes.fraction > 0.9


@given(st.lists(st.booleans(), min_size=1, max_size=300))
def test_spans_stay_few_and_cover_every_change(changed: list[bool]) -> None:
    old = [f"line {number}" for number in range(len(changed))]
    new = [f"{line}!" if edit else line for line, edit in zip(old, changed, strict=True)]
    spans = changes_between("\n".join(old), "\n".join(new)).spans
    assert len(spans) <= SPANS_KEPT
    assert all(overlaps(spans, [n]) for n, edit in enumerate(changed, start=1) if edit)


@pytest.mark.parametrize(
    ("new", "kinds"),
    [
        (PYTHON.replace("x + 1", "x + 2"), ("code",)),
        (PYTHON.replace("# aside", "# a remark"), ("comments",)),
        (PYTHON.replace("Say x.", "Tell x."), ("docs",)),
        (PYTHON.replace("return y\n", "return y\n\n\ndef test_f():\n    assert f(1)"), ("tests",)),
        (PYTHON.replace("import os", "import sys"), ("structure",)),
    ],
    ids=["code", "comments", "docs", "tests", "structure"],
)
def test_kinds_of_a_change_in_code(new: str, kinds: tuple[str, ...]) -> None:
    assert changes_between(PYTHON, new).kinds == kinds


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("# Title\n\nWords here.", "# Title\n\nOther words.", ("docs",)),
        ("# Title\n\nWords here.", "# Another\n\nWords here.", ("structure",)),
        ('{"a": 1,\n"b": 2}', '{"a": 1,\n"b": 3}', ("structure",)),
    ],
    ids=["prose", "heading", "json"],
)
def test_kinds_of_a_change_in_other_content(old: str, new: str, kinds: tuple[str, ...]) -> None:
    assert changes_between(old, new).kinds == kinds


def test_lines_around_spans() -> None:
    assert around([(5, 6)], 3) == frozenset(range(2, 10))
    assert around([(1, 1)], 3) == frozenset({1, 2, 3, 4})
