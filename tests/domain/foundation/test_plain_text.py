"""Foreign text: what is compared, and what people are shown."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.foundation.plain_text import (
    folded,
    is_blank,
    printable,
    printable_json,
    visible,
)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain words", "plain words"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("Grüße, 你好, עברית, e\u0301", "Grüße, 你好, עברית, e\u0301"),
        ("rm\u202e txt", "rm<U+202E> txt"),
        ("a\u200bb\u00adc", "a<U+200B>b<U+00AD>c"),
        ("\x1b[31mred\x07", "<U+001B>[31mred<U+0007>"),
        ("over\rwritten", "over<U+000D>written"),
        ("a\u3164b\u2800c\ufe0f", "a<U+3164>b<U+2800>c<U+FE0F>"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("odd\u00a0space\u2028line", "odd<U+00A0>space<U+2028>line"),
        ("\ud800", "<U+D800>"),
    ],
)
def test_hidden_signs_are_shown_by_number(text, seen):
    assert visible(text) == seen


@pytest.mark.parametrize(
    ("text", "compared"),
    [
        ("app\u200broved", "approved"),
        ("\uff21pproved", "Approved"),
        ("re\u00adjec\u034fted", "rejected"),
        ("\U000e0041no", "no"),
        ("ﬁne", "fine"),
    ],
)
def test_comparisons_see_what_a_person_reads(text, compared):
    assert folded(text) == compared


@given(st.text())
def test_visible_text_hides_nothing_and_is_stable(text):
    seen = visible(text)
    odd = {sign for sign in seen if unicodedata.category(sign) in {"Cc", "Cf", "Zl", "Zp"}}
    assert odd <= {"\n", "\t"}
    assert visible(seen) == seen


@given(st.text())
def test_folding_twice_changes_nothing(text):
    assert folded(folded(text)) == folded(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("a\x1b[2Jb", "a<U+001B>[2Jb"),
        ("a\x1b]0;title\x07b", "a<U+001B>]0;title<U+0007>b"),
        ("a\x9b31mb", "a<U+009B>31mb"),
        ("one\ntwo\tthree", "one\ntwo\tthree"),
        ("one\r\ntwo", "one\ntwo"),
        ("over\rwritten", "over<U+000D>written"),
        ("abc\u202edef", "abc<U+202E>def"),
        ("prix\u00a0: 3\u202f€, \u2764\ufe0f", "prix\u00a0: 3\u202f€, \u2764\ufe0f"),
        ("\ud800", "<U+D800>"),
    ],
    ids=[
        "colour", "clear", "title", "c1", "lines", "Windows line", "carriage return",
        "right to left", "honest spaces", "surrogate",
    ],
)  # fmt: skip
def test_printed_text_cannot_steer_the_terminal(text, shown):
    assert printable(text) == shown


@given(st.text(st.characters(codec=None, exclude_categories=())))
def test_nothing_that_a_terminal_obeys_is_left(text):
    shown = printable(text)
    odd = {sign for sign in shown if unicodedata.category(sign) in {"Cc", "Cs"}}
    assert odd <= {"\n", "\t"}
    assert printable(shown) == shown
    shown.encode()


@given(st.text())
def test_printed_json_is_the_same_value(text):
    written = printable_json(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(written) == {"text": text}
    assert printable(written) == written


@pytest.mark.parametrize(
    ("text", "blank"),
    [
        ("", True),
        (" \n\t\r\n", True),
        ("\u00a0\u2003\u3000", True),
        ("\u200b\u200b", True),
        ("\ufeff", True),
        ("\u2060 \u00ad\n\u3164", True),
        ("\x00\x07", True),
        (".", False),
        ("\u200bx", False),
        ("…", False),
        ("👍\ufe0f", False),
        ("```\n```", True),
        ("```python\n\n```", True),
        ("<!-- the text -->", True),
        ("---", True),
        ("# \n\n* * *\n>", True),
        ("```\nx\n```", False),
        ("<!-- a --> b", False),
        ("--- a", False),
        ("#1", False),
        ("-" * 500, False),
    ],
)
def test_a_text_of_which_nothing_is_seen_is_blank(text, blank):
    assert is_blank(text) is blank
