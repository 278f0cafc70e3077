"""Skill files: what people leave out is found in the text, and what is wrong is named."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.memory.entries import TEXT_CHARACTERS
from perdure.domain.memory.skills import slug
from perdure.interfaces.skill_files import MOST_BYTES, parse_skill, read_skill

NOW = datetime(2026, 1, 2, tzinfo=UTC)
FRONT = """---
name: Rate Limits
purpose: Add a limit
categories: [code, api]
deterministic: true
effectiveness: 0.7
---
# Other title
Do it.
"""


def skill(text: str, stem: str = "my file"):
    return parse_skill(text, stem=stem, source="file:x.md", now=NOW)


def test_facts_in_front() -> None:
    found = skill(FRONT)
    assert (found.id, found.name, found.purpose) == (
        "skill-rate-limits",
        "rate-limits",
        "Add a limit",
    )
    assert (found.categories, found.deterministic) == (("code", "api"), True)
    assert (found.effectiveness, found.version, found.origins) == (0.7, 1, ())
    assert (found.text, found.source) == ("# Other title\nDo it.", "file:x.md")


@pytest.mark.parametrize(
    ("text", "name", "purpose"),
    [
        ("# Skill: Morning  summary\n\nRead it all.\n", "morning-summary", "Read it all."),
        ("# A\n## Purpose\n\nTo see.\n\nMore.", "a", "To see."),
        ("Just words.", "my-file", "Just words."),
        ("---\n---\n# T\nwords", "t", "words"),
        ("# !?\ntext", "my-file", "text"),
        ("---\nnot front matter", "my-file", "---"),
        ("# " + "long " * 40 + "\nx", "-".join(["long"] * 12), "x"),
    ],
    ids=["heading", "purpose", "file name", "empty facts", "no letters", "no front", "long"],
)
def test_what_is_left_out_is_found_in_the_text(text: str, name: str, purpose: str) -> None:
    found = skill(text)
    assert (found.name, found.purpose) == (name, purpose)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no text"),
        ("---\nname: a\n---\n  \n", "has no text"),
        ("---\nnam: a\n---\nx", "Did you mean name?"),
        ("---\neffectiveness: 2\n---\nx", "effectiveness: found 2"),
        ("---\n- a\n---\nx", "holds a list"),
        ("---\na: [\n---\nx", "cannot be read as YAML"),
        ("---\nname: '!'\n---\nx", "has no name"),
        ("x" * (TEXT_CHARACTERS + 1), "at most 64,000 fit"),
    ],
    ids=["empty", "only facts", "typo", "range", "list", "yaml", "no name", "long"],
)
def test_what_is_wrong_is_named(text: str, told: str) -> None:
    with pytest.raises(InvalidInput, match=told.replace("?", r"\?")):
        skill(text, stem="…")


def test_files_are_read_with_care(tmp_path: Path) -> None:
    path = tmp_path / "a skill.md"
    for first in (b"\xef\xbb\xbf", b"\r\n \r\n"):
        path.write_bytes(first + b"---\r\npurpose: p\r\n---\r\nDo.\r\n")
        found = read_skill(path, now=NOW)
        assert (found.name, found.purpose, found.text) == ("a-skill", "p", "Do.")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        read_skill(path, now=NOW)
    path.write_bytes(b"x" * (MOST_BYTES + 1))
    with pytest.raises(InvalidInput, match="larger than"):
        read_skill(path, now=NOW)
    with pytest.raises(InvalidInput, match="is a folder"):
        read_skill(tmp_path, now=NOW)


def test_slugs() -> None:
    assert slug("Größe & Länge_2") == "grösse-länge-2"
