"""The view of the library: shelves, what each says, and decisions in place."""

import re

import pytest
from page_visit import Visitor, visitor
from proposals import ACCEPTED, FAILED, TOOL, propose
from rest import Rest

SHELVES = ("skill", "learning", "pattern", "tool")


@pytest.fixture
async def filled(rest: Rest) -> Rest:
    await propose(rest.site.parts.stores)
    return rest


@pytest.mark.parametrize("shelf", SHELVES)
async def test_an_empty_shelf_says_how_it_fills(person: Visitor, shelf: str) -> None:
    page = await person.see(f"/library?shelf={shelf}")
    assert 'class="empty"' in page


@pytest.mark.parametrize("shelf", SHELVES)
async def test_each_thing_has_its_state_and_leads_to_its_run(
    person: Visitor, filled: Rest, shelf: str
) -> None:
    page = await person.see(f"/library?shelf={shelf}")
    assert ("waits for a decision" in page) is (shelf != "learning")
    assert ("/approve" in page) is (shelf != "learning")
    assert (f'href="/runs/{ACCEPTED}"' in page) is (shelf != "pattern")


async def test_a_proposal_is_approved_in_place(person: Visitor, filled: Rest) -> None:
    page = await person.see("/library?shelf=tool")
    (path,) = re.findall(r'formaction="(/library/tool/[^"]+/approve)"', page)
    key = await person.form_key("/library?shelf=tool")
    assert (await person.send(path, {})).status_code == 403
    answer = await person.send(path, {}, key=key)
    assert (answer.status_code, answer.headers["location"]) == (303, "/library?shelf=tool")
    page = await person.see("/library?shelf=tool")
    assert "in use" in page and "decided by test (" in page


async def test_a_learning_is_forgotten_in_place(person: Visitor, filled: Rest) -> None:
    shelf = "/library?shelf=learning"
    page = await person.see(shelf)
    (path,) = re.findall(r'formaction="(/library/learning/[^"]+/forget)"', page)
    assert "data-confirm=" in page and "/forget" in await person.see(path.removesuffix("/forget"))
    assert (await person.send(path, {})).status_code == 403
    answer = await person.send(path, {}, key=await person.form_key(shelf))
    assert (answer.status_code, answer.headers["location"]) == (303, shelf)
    assert 'class="empty"' in await person.see(shelf)


async def test_a_refusal_is_told_in_words(person: Visitor, filled: Rest) -> None:
    page = await person.see("/library?shelf=skill")
    (address,) = re.findall(rf'href="(/library/skill/[^"]+)">notes@{FAILED}', page)
    key = await person.form_key("/library?shelf=skill")
    answer = await person.send(f"{address}/approve", {"name": "x"}, key=key)
    assert answer.status_code == 409
    assert "only what accepted runs wrote" in answer.text
    assert (await person.send(f"{address}/reject", {}, key=key)).status_code == 303
    assert f"notes@{FAILED}" not in await person.see("/library?shelf=skill")


async def test_what_models_wrote_is_harmless_on_the_page(person: Visitor, filled: Rest) -> None:
    page = await person.see("/library?shelf=skill")
    (address,) = re.findall(rf'href="(/library/skill/[^"]+)">notes@{ACCEPTED}', page)
    for shown in (page, await person.see(address)):
        assert "<script>alert" not in shown


async def test_a_tool_shows_its_code(person: Visitor, filled: Rest) -> None:
    assert "return a + b" in await person.see(f"/library/tool/{TOOL}")


async def test_definitions_are_shown_as_they_were_written(person: Visitor) -> None:
    page = await person.see("/library?shelf=definition")
    assert "comes with Perdure" in page
    (name, *_) = re.findall(r'href="/library/definition/([^"]+)"', page)
    assert f"name: {name}" in await person.see(f"/library/definition/{name}")
    assert (await person.client.get("/library/definition/none")).status_code == 404


async def test_a_shelf_that_is_none_is_not_found(person: Visitor) -> None:
    assert (await person.client.get("/library?shelf=books")).status_code == 404


async def test_who_only_reads_sees_no_buttons(filled: Rest) -> None:
    async with visitor(filled, await filled.token("read")) as reader:
        assert "/approve" not in await reader.see("/library?shelf=tool")
        assert "/forget" not in await reader.see("/library?shelf=learning")
