"""What all runs spent, over REST: by what, when, and as a file."""

import csv
import io

import pytest
from account_books import Books
from rest import Rest

COSTS = "/api/v1/costs"
DAYS = {"since": "2026-01-01", "until": "2026-01-31"}


@pytest.fixture
async def books(door: Rest) -> Books:
    made = Books(door.site.parts.stores.database)
    await made.run("a", label="=cmd()")
    await made.call("0.1", root="a", model="small")
    await made.call("0.2", root="a", model="small")
    await made.call(None, root="b", model="large", days=1)
    return made


async def test_money_is_exact_text(door: Rest, books: Books) -> None:
    found = (await door.client.get(COSTS, params=DAYS)).json()
    assert [line["name"] for line in found["lines"]] == ["2026-01-02", "2026-01-03"]
    assert [line["known_cost_usd"] for line in found["lines"]] == ["0.3", "0"]
    assert (found["total"]["calls"], found["total"]["unpriced_calls"]) == (3, 1)
    assert found["period"] == DAYS


async def test_a_file_is_sent_to_who_accepts_one(door: Rest, books: Books) -> None:
    asked = {**DAYS, "by": "label"}
    answer = await door.client.get(COSTS, params=asked, headers={"accept": "text/csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    assert "costs-by-label-2026-01-01-2026-01-31.csv" in answer.headers["content-disposition"]
    rows = list(csv.reader(io.StringIO(answer.text, newline="")))
    assert [row[0] for row in rows] == ["label", "'=cmd()", "", "(total)"]
    assert [row[6] for row in rows] == ["known_cost_usd", "0.3", "0", "0.3"]


@pytest.mark.parametrize(
    ("asked", "lines"),
    [
        ({"model": "small"}, {"a": "0.3"}),
        ({"label": "=cmd()", "kind": "refine"}, {"a": "0.3"}),
        ({"unlabelled": "true"}, {"b": "0"}),
        ({"unknown_kind": "true"}, {"b": "0"}),
        ({"since": "2026-01-03"}, {"b": "0"}),
    ],
)
async def test_the_runs_behind_a_line_have_their_part_of_it(
    door: Rest, books: Books, asked: dict[str, str], lines: dict[str, str]
) -> None:
    found = (await door.client.get(COSTS, params={**DAYS, "by": "run", **asked})).json()
    assert {line["name"]: line["known_cost_usd"] for line in found["lines"]} == lines
    assert (
        found["only"].items()
        >= {name: value for name, value in asked.items() if name in ("model", "label")}.items()
    )


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"by": "user"}, "query.by"),
        ({"since": "yesterday"}, "query.since"),
        ({"since": "2026-02-01", "until": "2026-01-01"}, "2026-02-01 is after the last day"),
        ({"from": "2026-01-01"}, "from"),
    ],
)
async def test_a_wrong_question_is_refused(door: Rest, asked: dict[str, str], told: str) -> None:
    answer = await door.client.get(COSTS, params=asked)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")
    assert told in answer.text


async def test_the_last_days_are_shown_unless_others_are_asked_for(
    door: Rest, books: Books
) -> None:
    found = (await door.client.get(COSTS)).json()
    assert (found["by"], found["lines"]) == ("day", [])
