"""An output of megabytes: the page shows its beginning, says so, and offers the whole."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from page_visit import visitor
from rest import TASK, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.interfaces.web.rendering import MOST_SHOWN, markdown, source

LONG = "a word \N{RIGHT-TO-LEFT OVERRIDE}, " * 200_000
MOST_BYTES = 1_000_000


@pytest.fixture
async def writing(tmp_path: Path, server: WorkflowEnvironment) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    script = {"replies": [{"text": LONG, "usage": {"input_tokens": 1, "output_tokens": 1}}]}
    async with scripted(tmp_path, address, script) as site, site.worker(), served(site) as rest:
        yield rest


@pytest.mark.parametrize("show", [markdown, source])
@pytest.mark.parametrize(("more", "told"), [(0, ""), (1, "Cut here: 1 character more")])
def test_a_text_is_cut_where_it_is_too_long_and_says_so(show, more: int, told: str) -> None:
    shown = show("x" * (MOST_SHOWN + more))
    assert ("Cut here" in shown) is bool(told)
    assert shown.count("x") >= MOST_SHOWN


def table(columns: int, rows: int, before: str = "") -> str:
    """A table whose rows have one cell each: the parser fills them up."""
    lines = ["|a" * columns, "|-" * columns, *["|x"] * rows]
    return "".join(f"{before}{line}\n" for line in lines) + "\n"


TABLES = {
    "one wide": table(240, 250),
    "many": table(100, 20) * 20,
    "in a quotation": table(240, 250, "> > "),
    "in a list": "- one\n\n" + table(240, 250, "  "),
    "with signs that end lines elsewhere": table(240, 250).replace("|x", "|x\f\f|"),
    "with old ends of lines": table(240, 250).replace("\n", "\r\n"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", TABLES.values(), ids=TABLES)
def test_tables_that_are_too_long_are_shown_as_they_were_written(text: str) -> None:
    shown = markdown(text)
    assert "<table" not in shown
    assert len(shown) < 5 * len(text)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("space", [" ", "\t"])
def test_a_long_line_of_spaces_is_shown_at_once(space: str) -> None:
    assert "the end" in markdown(space * (MOST_SHOWN // 3) + "the end")


DEEP = {
    "quotation": "> " * 19 + "the end",
    "deeper quotation": "> " * 20 + "the end",
    "list": "".join("  " * level + "- one\n" for level in range(9)) + "  " * 9 + "- the end",
    "both": "- > " * 7 + "the end",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_is_nested_deeply_is_shown_all_the_same(text: str) -> None:
    assert "the end" in markdown(text)


def test_a_link_leads_to_what_stands_at_the_end() -> None:
    assert 'href="https://example.org/"' in markdown("[one][a]\n\n[a]: https://example.org/")


def test_a_long_table_is_a_table() -> None:
    shown = markdown(table(9, 900) + "# More\n\n" + "a line\n" * 9_000)
    assert shown.count("<td>") == 9 * 900


async def test_a_page_stays_small_and_the_whole_can_be_saved(writing: Rest) -> None:
    run = await writing.start(TASK)
    await writing.ended(run)
    async with visitor(writing, await writing.token("read")) as person:
        for path in (f"/runs/{run}", f"/runs/{run}/iterations/1"):
            page = await person.see(path)
            assert len(page.encode()) < MOST_BYTES, path
            assert "Cut here" in page
            link = re.search(r'href="(/runs/[^"]+/results/[^"]+)"', page)
            assert link is not None, path
            whole = await person.client.get(link[1])
            assert whole.text == LONG
            assert whole.headers["content-disposition"] == "attachment"
        calls = await person.see(f"/runs/{run}/iterations/1/calls")
        assert len(calls.encode()) < MOST_BYTES
