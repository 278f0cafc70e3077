"""Sections as parts: found by their headings, replaced without touching a byte of the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.domain.outputs.parts import sections

DRAFT = "# Report\nintro\n\n## Goals\n\nBe *good*.\n\n## Risks ##\nnone\n"


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("plain", [None], id="no heading"),
        pytest.param(DRAFT, [None, "Goals", "Risks"], id="before the first section"),
        pytest.param("## A\na\n# B\nb\n## C\nc", ["A", None, "C"], id="a title between sections"),
        pytest.param("## A\n### B\nb", ["A"], id="lower headings belong to the section"),
        pytest.param("## A\n```\n## B\n```\n## C\n", ["A", "C"], id="code holds no heading"),
        pytest.param("## A\n~~~~\n```\n## B\n~~~~\n## C", ["A", "C"], id="a fence inside a fence"),
        pytest.param("## A\n```x``` y\n## B\n", ["A", "B"], id="code in a line is no fence"),
        pytest.param("## C#\n## A #\n## B ##", ["C#", "A", "B"], id="closing marks stand apart"),
        pytest.param("##A\n    ## B\n", [None], id="no headings at all"),
        pytest.param("## A\r\na\r\n## B\r\nb", ["A", "B"], id="carriage returns"),
    ],
)
def test_split(text: str, titles: list[str | None]) -> None:
    found = sections.split(text)
    assert [one.title for one in found] == titles
    assert sections.join(found) == text


@pytest.mark.parametrize(
    ("text", "part", "body"),
    [
        pytest.param(DRAFT, "Goals", "Be *good*.", id="without its heading"),
        pytest.param(DRAFT, "  risks", "none", id="case and space do not matter"),
        pytest.param("## **Goals:**\ng", "Goals", "g", id="nor do marks"),
        pytest.param("## A\n1\n## A\n2", "A", "1", id="the first of two"),
        pytest.param("## C#\nc", "C#", "c", id="a name that ends in the mark"),
        pytest.param(DRAFT, "Costs", "", id="missing"),
    ],
)
def test_part_text(text: str, part: str, body: str) -> None:
    assert sections.part_text(text, part) == body


@pytest.mark.parametrize(
    ("text", "tidy"),
    [
        pytest.param(DRAFT, DRAFT, id="complete"),
        pytest.param("## Risks\nr", "## Risks\nr\n\n## Goals\n", id="a missing one is appended"),
        pytest.param("x", "x\n\n## Goals\n\n## Risks\n", id="in the order of the rubric"),
        pytest.param(" \n", "", id="nothing stays nothing"),
        pytest.param(
            "## Goals\n```\n## Risks\nr",
            "## Goals\n```\n## Risks\nr\n```\n\n## Risks\n",
            id="an open fence is closed",
        ),
    ],
)
def test_tidy(text: str, tidy: str) -> None:
    assert sections.tidy(text, ("Goals", "Risks")) == tidy
    assert sections.tidy(tidy, ("Goals", "Risks")) == tidy


@pytest.mark.parametrize(
    ("text", "body"),
    [
        pytest.param("None known.", "None known.", id="bare"),
        pytest.param("## Risks\n\nNone.\n", "None.", id="with its heading"),
        pytest.param("### Risks\nNone.", "None.", id="with a heading of another level"),
        pytest.param("# Risks\nNone.", "None.", id="with a title"),
        pytest.param("```markdown\n## Risks\nNone.\n```", "None.", id="wrapped"),
        pytest.param("```sh\nls\n```", "```sh\nls\n```", id="code stays code"),
        pytest.param("## Goals\ng\n## Risks\nr\n## Costs\nc", "r", id="others are left out"),
        pytest.param("None.\n## Costs\nc", "None.", id="ends before another"),
        pytest.param("## Costs\nc", "", id="another alone is none"),
        pytest.param("```\nls", "```\nls\n```", id="an open fence is closed"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_reply(text: str, body: str) -> None:
    assert sections.reply(text, "Risks") == body


def test_replaced_keeps_all_else() -> None:
    changed = sections.replaced(DRAFT, {"Goals": "Be better."}, ("Goals", "Risks"))
    assert changed == "# Report\nintro\n\n## Goals\n\nBe better.\n\n## Risks ##\nnone\n"


def test_a_missing_section_is_added() -> None:
    changed = sections.replaced("## A\na", {"C": "c"}, ("A", "B", "C"))
    assert changed == "## A\na\n\n## B\n\n## C\n\nc\n"
    assert sections.replaced("", {"A": "a"}, ("A",)) == "## A\n\na\n"


PIECES = st.sampled_from(
    ["## A", "## B", "##  c ", "# T", "### D", "```", "~~~", "````py", "text", "", "  ## B", "#"]
)
MARKDOWN = st.lists(PIECES | st.text("ab#`~ \r", max_size=5), max_size=12).map("\n".join)
NAMES = ("A", "B", "C")


@given(MARKDOWN | st.text())
def test_any_text_survives_taking_apart_and_joining(text: str) -> None:
    assert sections.join(sections.split(text)) == text


@given(draft=MARKDOWN, replies=st.dictionaries(st.sampled_from(NAMES), MARKDOWN))
def test_other_sections_stay_byte_for_byte(draft: str, replies: dict[str, str]) -> None:
    text = sections.tidy(draft, NAMES)
    usable = {part: body for part in replies if (body := sections.reply(replies[part], part))}
    if not text:
        return
    before = sections.split(text)
    after = sections.split(sections.replaced(text, usable, NAMES))
    assert [one.title for one in after] == [one.title for one in before]
    for part, body in usable.items():
        assert sections.part_text(sections.join(after), part) == body
    changed = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert len(changed) <= len(usable)
    assert sections.tidy(text, NAMES) == text
