"""The views of experiments: the list, and the report of one."""

import pytest
from kept_experiments import ended_experiment
from page_visit import Visitor
from rest import Rest

NAME = "<b>bottles</b>"


@pytest.fixture
async def experiment(rest: Rest) -> str:
    return await ended_experiment(rest.site, name=NAME, entry="<i>x</i>")


async def test_an_empty_list_says_what_to_do(person: Visitor) -> None:
    assert "perdure experiment FILE" in await person.see("/experiments")


async def test_the_list_leads_to_the_report(person: Visitor, experiment: str) -> None:
    page = await person.see("/experiments")
    assert 'href="/experiments/exp-page"' in page
    assert "&lt;b&gt;bottles&lt;/b&gt;" in page
    assert NAME not in page
    assert "12 of 12 trials" in page


async def test_the_report_says_first_what_a_reader_must_know(
    person: Visitor, experiment: str
) -> None:
    page = await person.see(f"/experiments/{experiment}")
    assert "loop scores itself 1.00, and the held-out score is 0.77" in page
    assert page.index("loop scores itself") < page.index("<h2>Arms</h2>")
    assert "Compared on the same inputs" in page
    assert 'href="/runs/exp-page-loop-5"' in page
    assert "input &lt;i&gt;x&lt;/i&gt;5" in page
    assert "<i>x</i>" not in page
    assert 'href="/runs?label=exp-page"' in page


async def test_the_plot_is_a_picture_of_this_site(person: Visitor, experiment: str) -> None:
    answer = await person.client.get(f"/experiments/{experiment}/plot.svg")
    assert answer.headers["content-type"].startswith("image/svg+xml")
    assert "<b>bottles" not in answer.text


async def test_an_unknown_one_is_told(person: Visitor) -> None:
    answer = await person.client.get("/experiments/nope")
    assert answer.status_code == 404
    assert "There is no experiment nope" in answer.text


async def test_it_can_be_compared_where_runs_are(person: Visitor, experiment: str) -> None:
    asked = await person.see("/compare")
    assert 'href="/experiments/exp-page"' in asked
    assert "&lt;b&gt;bottles&lt;/b&gt;" in asked
    assert NAME not in asked
    compared = await person.see(f"/compare?experiment={experiment}")
    assert "<h2>Arms</h2>" in compared
    assert "/experiments/exp-page/plot.svg" in compared
    answer = await person.client.get("/compare", params={"experiment": "nope"})
    assert answer.status_code == 404


async def test_without_experiments_the_comparison_says_how_to_start_one(person: Visitor) -> None:
    assert "perdure experiment FILE" in await person.see("/compare")
