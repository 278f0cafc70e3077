"""The view of costs: its period in the address, its figures in words, and its file."""

import html
import json
import re
from datetime import date
from decimal import Decimal

import pytest
from account_books import Books
from page_visit import Visitor
from rest import Rest

from perdure.domain.budget.spend_report import InputSavings, Period, SpendLine
from perdure.domain.llm.usage import Usage
from perdure.interfaces.spending import Spending
from perdure.interfaces.web.api_calls import problem_of
from perdure.interfaces.web.costs.routes import rows_of, saved_words

DAYS = "since=2026-01-01&until=2026-01-31"


@pytest.fixture
async def books(rest: Rest) -> Books:
    made = Books(rest.site.parts.stores.database)
    await made.run("a", label="<b>docs</b>", result=None)
    await made.call("0.1", root="a", model="small")
    await made.call("0.2", root="a", model="small")
    await made.call(None, root="b", model="large", days=1)
    return made


async def test_an_empty_period_says_what_to_do(person: Visitor) -> None:
    page = await person.see("/costs")
    assert "No model was called from" in page
    assert 'href="/new"' in page


async def test_the_figures_are_in_words(person: Visitor, books: Books) -> None:
    page = await person.see(f"/costs?by=label&{DAYS}")
    assert "&lt;b&gt;docs&lt;/b&gt;" in page and "<b>docs" not in page
    behind = "/costs?by=run&amp;since=2026-01-01&amp;until=2026-01-31&amp;"
    assert f'href="{behind}label=%3Cb%3Edocs%3C%2Fb%3E"' in page
    assert f'href="{behind}unlabelled=true"' in page
    assert "no label" in page
    assert "at least $0.30" in page
    assert "1 call without a known price" in page


async def test_the_newest_day_comes_first(person: Visitor, books: Books) -> None:
    page = await person.see(f"/costs?{DAYS}")
    assert page.index(">2026-01-03</a></th>") < page.index(">2026-01-02</a></th>")


@pytest.mark.parametrize(
    ("table", "line", "only", "runs"),
    [
        ("day", "2026-01-02", "", {"a": "$0.30"}),
        ("model", "small", "Only model small.", {"a": "$0.30"}),
        ("kind", "refine", "Only kind refine.", {"a": "$0.30"}),
        ("kind", "learning and deleted runs", "Only learning and", {"b": "unknown"}),
        ("label", "no label", "Only no label.", {"b": "unknown"}),
        ("model", "All", "", {"a": "$0.30", "b": "unknown"}),
    ],
)
async def test_a_figure_leads_to_its_runs(
    person: Visitor, books: Books, table: str, line: str, only: str, runs: dict[str, str]
) -> None:
    page = await person.see(f"/costs?by={table}&{DAYS}")
    (address,) = re.findall(rf'<a href="(/costs[^"]*)">{line}</a></th>', page)
    behind = await person.see(html.unescape(address))
    assert only in behind
    row = re.compile(r'<th scope="row"><a href="/runs/(\w)">.*?figure cost[^>]*>([^<]*)', re.DOTALL)
    assert dict(row.findall(behind)) == runs
    assert "not all that it ever spent" in behind


async def test_another_period_or_table_keeps_what_it_is_about(
    person: Visitor, books: Books
) -> None:
    page = await person.see(f"/costs?by=run&model=small&{DAYS}")
    links = re.findall(r'href="(/costs[^"]*)"', page)
    kept = [link for link in links if "model=small" in link]
    assert len(kept) == 10  # three periods, six groupings and the file
    assert '<input type="hidden" name="model" value="small">' in page
    assert "model=small" in page.partition('href="/costs.csv?')[2].partition('"')[0]


async def test_a_learning_run_leads_to_the_run_it_learned_from(
    person: Visitor, books: Books
) -> None:
    await books.call("1", root="learn-a")
    page = await person.see(f"/costs?by=run&{DAYS}")
    assert '<a href="/runs/a">learning from a</a>' in page


async def test_a_run_that_somebody_called_like_a_learning_run_is_none(
    person: Visitor, rest: Rest, books: Books
) -> None:
    await books.run("to-write")
    await books.run("learn-to-write")
    await books.call("1", root="learn-to-write")
    await books.call("2", root="to-write")
    page = await person.see(f"/costs?by=run&{DAYS}")
    assert '<a href="/runs/learn-to-write">learn-to-write</a>' in page
    costs = (await rest.client.get("/api/v1/loops/to-write/costs")).json()
    assert (costs["total"]["cost_usd"], costs["learning"]) == ("2", None)


def test_tokens_are_told_to_the_last_one() -> None:
    usage = Usage(input_tokens=1_234_567, cache_read_tokens=40_001, output_tokens=9_876)
    line = SpendLine(name="m", calls=1, usage=usage, known_cost_usd=Decimal("1.005"))
    days = Period(since=date(2026, 1, 1), until=date(2026, 1, 2))
    (row,) = rows_of(Spending(by="model", period=days, total=line, lines=(line,)))
    assert (row.sent, row.cached, row.written) == ("1,234,567", "40,001", "9,876")


async def test_the_file_is_the_table_that_is_shown(person: Visitor, books: Books) -> None:
    page = await person.see(f"/costs?by=model&{DAYS}")
    address = page.partition('href="/costs.csv?')[2].partition('"')[0].replace("&amp;", "&")
    answer = await person.client.get(f"/costs.csv?{address}")
    assert answer.headers["content-type"].startswith("text/csv")
    names = [line.partition(",")[0] for line in answer.text.splitlines()]
    assert names == ["model", "small", "large", "(total)"]


async def test_a_wrong_period_is_told_above_the_form(person: Visitor) -> None:
    answer = await person.client.get("/costs?since=2026-02-01&until=2026-01-01")
    assert answer.status_code == 422
    assert "2026-02-01 is after the last day" in answer.text
    assert 'name="since"' in answer.text


def test_savings_are_told_against_the_loop_that_resends() -> None:
    assert saved_words(InputSavings()) == ""
    whole = saved_words(InputSavings(runs=2, input_tokens=400, naive_input_tokens=1_000))
    assert "2 runs that ended here sent 400 prompt tokens" in whole
    assert "would have sent 1,000" in whole
    equal = saved_words(InputSavings(runs=1, input_tokens=5, naive_input_tokens=5))
    assert "saved nothing" in equal


@pytest.mark.parametrize(
    ("cure", "told"),
    [
        ("Look at it first: GET /api/v1/loops/ID shows what a run allows.", ""),
        ("Then `POST /api/v1/loops/ID/retry`.", ""),
        ("Make another one: perdure open", "Make another one: perdure open"),
    ],
)
def test_people_are_told_no_address_of_the_api(cure: str, told: str) -> None:
    assert problem_of(409, json.dumps({"cure": cure}).encode()).cure == told
