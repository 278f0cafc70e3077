"""Lines as parts: tidied, taken out, replaced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.outputs.parts import lines


@pytest.mark.parametrize(
    ("text", "count", "tidy"),
    [
        pytest.param(" a \n\n b\n", 2, "a\nb", id="blank ones go"),
        pytest.param("a\nb\nc", 2, "a\nb", id="surplus left out"),
        pytest.param("a", 3, "a\n\n", id="missing ones are empty"),
        pytest.param("", 1, "", id="nothing"),
    ],
)
def test_tidy(text: str, count: int, tidy: str) -> None:
    assert lines.tidy(text, count) == tidy


@pytest.mark.parametrize(
    ("reply", "part"),
    [
        ('\n "Name: Bottle" \nmore', "Name: Bottle"),
        ("- Name: Bottle", "Name: Bottle"),
        ("**Name: Bottle**", "Name: Bottle"),
        ("* Name: Bottle", "Name: Bottle"),
        ('- "Name: Bottle"', "Name: Bottle"),
        ('"- Name: Bottle', "Name: Bottle"),
        ("'It's a bottle'", "It's a bottle"),
        ('The label says "steel"', 'The label says "steel"'),
        ('"Steel," it says', '"Steel," it says'),
        ("**Name:** Bottle", "**Name:** Bottle"),
        ("`a` and `b`", "`a` and `b`"),
        ("'Steel' and 'lid'", "'Steel' and 'lid'"),
        ("a cup of the dogs'", "a cup of the dogs'"),
        ("", ""),
    ],
    ids=str,
)
def test_the_line_in_a_reply(reply: str, part: str) -> None:
    assert lines.reply(reply) == part


LINE = st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1)


@given(st.lists(LINE, min_size=1), st.dictionaries(st.integers(1, 5), LINE))
def test_only_replaced_lines_change(given: list[str], replies: dict[int, str]) -> None:
    text = lines.tidy("\n".join(given), len(given))
    changed = lines.replaced(text, replies, len(given))
    assert changed.split("\n") == [replies.get(n, line) for n, line in enumerate(given, start=1)]
    assert lines.replaced(text, {}, len(given)) == text
    for number in range(1, len(given) + 1):
        assert lines.part_text(text, number) == given[number - 1]
