"""The glossary has each term once, and what it is called elsewhere; it knows the closed sets."""

import re

import pytest

from perdure.domain.run.messages import VERBS
from perdure.domain.specs import KINDS
from tests.docs.test_pages import page

TEXT = page("glossary.md")
ROWS = [row.split(" | ") for row in re.findall(r"^\| (?!term |---)(.+) \|$", TEXT, re.MULTILINE)]
TERMS = [term for row in ROWS for term in row[0].split(", ")]


def test_every_term_has_its_meaning_and_its_other_words() -> None:
    assert ROWS
    assert [row[0] for row in ROWS if len(row) != 4 or not all(row)] == []


def test_no_term_is_explained_twice() -> None:
    assert [term for term in set(TERMS) if TERMS.count(term) > 1] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_loop_is_named(kind: str) -> None:
    assert f"`{kind}`" in TEXT


def test_every_verb_is_named() -> None:
    (verb,) = [row for row in ROWS if row[0] == "verb"]
    assert all(name.partition("_")[0] in verb[1] for name in VERBS)
