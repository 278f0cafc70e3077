"""No view is a dead end: each leads on to what a person would do next."""

import pytest
from account_books import Books
from page_visit import Visitor, visitor
from proposals import ACCEPTED, FAILED, propose
from rest import Rest


async def test_without_a_run_the_list_leads_to_the_form(rest: Rest, person: Visitor) -> None:
    assert '<a href="/new">here</a>' in await person.see("/runs")
    async with visitor(rest, await rest.token("read")) as reader:
        page = await reader.see("/runs")
    assert "perdure run" in page
    assert '<a href="/new">here</a>' not in page, "who may not start is not sent to the form"


async def test_a_run_is_compared_with_one_that_is_chosen(rest: Rest, person: Visitor) -> None:
    await propose(rest.site.parts.stores)
    first = await person.see("/compare")
    assert f'href="/compare?left={ACCEPTED}"' in first
    second = await person.see(f"/compare?left={ACCEPTED}")
    assert f'href="/compare?left={ACCEPTED}&amp;right={FAILED}"' in second
    assert f"right={ACCEPTED}" not in second, "nobody compares a run with itself"


async def test_a_run_whose_id_ends_like_an_iteration_is_compared(
    rest: Rest, person: Visitor
) -> None:
    await propose(rest.site.parts.stores)
    row = await rest.site.parts.stores.records.run(ACCEPTED)
    assert row is not None
    await rest.site.parts.stores.records.put_run(row.model_copy(update={"id": "order:42"}))
    asked = await person.see("/compare?left=order%3A42")
    assert f"right={ACCEPTED}" in asked
    assert "right=order%3A42" not in asked, "nobody compares a run with itself"
    compared = await person.see(f"/compare?left=order%3A42&right={ACCEPTED}")
    assert 'href="/runs/order%3A42"' in compared


async def test_steering_without_a_tick_says_so(person: Visitor) -> None:
    key = await person.form_key()
    answer = await person.send("/runs/pause-selected", {}, key=key)
    assert answer.status_code == 200
    assert "Nothing was ticked" in answer.text


async def test_what_is_not_there_leads_back_without_words_for_programs(person: Visitor) -> None:
    answer = await person.client.get("/runs/nobody/iterations/7")
    assert 'href="/runs/nobody"' in answer.text
    assert "GET /api" not in answer.text


@pytest.mark.parametrize(
    ("by", "told"),
    [
        ("model", "A line leads to its runs"),
        ("day", "A line leads to its runs"),
        ("kind", "A line leads to its runs"),
        ("run", "leads to each call with what it cost"),
    ],
)
async def test_the_costs_say_where_the_calls_are(
    rest: Rest, person: Visitor, by: str, told: str
) -> None:
    books = Books(rest.site.parts.stores.database)
    await books.run("a", label="docs", result=None)
    await books.call("0.1", root="a", model="small")
    page = await person.see(f"/costs?by={by}&since=2026-01-01&until=2026-01-31")
    assert told in page
