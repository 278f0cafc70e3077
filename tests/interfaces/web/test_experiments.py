"""The views of experiments: the list, and the report of one."""

import html
import re
from decimal import Decimal
from xml.etree import ElementTree

import pytest
from kept_experiments import AT, ended_experiment
from page_visit import Visitor, visitor
from rest import Rest
from waiting import eventually

from perdure.domain.experiments.plan import Arm, Entry, ExperimentBudget, Plan
from perdure.domain.experiments.store import StoredExperiment
from perdure.interfaces.experiments.pasted_inputs import inputs_of

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


async def test_the_plot_is_a_part_of_the_page_and_a_whole_file(
    person: Visitor, experiment: str
) -> None:
    """In the page its colours are those of the theme; the file has its own, on white."""
    page = await person.see(f"/experiments/{experiment}")
    page = page[page.index("<main") :]  # above it stands the brand, a drawing too
    drawn = page[page.index("<svg") : page.index("</svg>") + len("</svg>")]
    assert "<b>bottles" not in drawn and "&lt;b&gt;bottles" in drawn
    file = await person.client.get(f"/experiments/{experiment}/report.svg")
    assert file.text.strip() == drawn
    back = ElementTree.fromstring(file.text)[0]
    assert (back.attrib["class"], back.attrib["fill"]) == ("back", "#fff")


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
    assert '<div class="chart"' in compared
    answer = await person.client.get("/compare", params={"experiment": "nope"})
    assert answer.status_code == 404


async def test_without_experiments_the_comparison_says_how_to_start_one(person: Visitor) -> None:
    assert "perdure experiment FILE" in await person.see("/compare")


WRITTEN: dict[str, str] = {
    "name": "texts",
    "task": "kind: refine\n"
    "goal: <b>Write</b>.\n"
    "models: {executor: MODEL}\n"
    "rubric: [{name: g, evaluator: {check: contains, all: [good]}}]\n"
    "refine: {plan: off, classify: off}",
    "inputs": '{"id": "a", "product": "steel"}\n{"id": "b", "product": "<i>glass</i>"}',
    "arms": "loop: {}\nsingle: {refine.max_iterations: 1}",
    "repeats": "2",
}
ID = re.compile(r'name="id" value="([^"]+)"')


async def form(rest: Rest, **changed: str) -> dict[str, str]:
    reply: dict[str, object] = {"text": "good", "times": 99}
    model = await rest.site.script({"replies": [reply], "exhausted": "repeat_last"})
    return {**WRITTEN, "task": WRITTEN["task"].replace("MODEL", model), **changed}


async def ids(rest: Rest) -> list[str]:
    return [one["id"] for one in (await rest.client.get("/api/v1/experiments")).json()["items"]]


async def state(rest: Rest, id: str) -> str:
    return (await rest.client.get(f"/api/v1/experiments/{id}")).json()["state"]


@pytest.mark.usefixtures("site")  # it has a worker
async def test_an_experiment_is_looked_over_then_started_once(rest: Rest, person: Visitor) -> None:
    key = await person.form_key("/experiments/new")
    fields = await form(rest)
    seen = await person.send("/experiments/new", fields, key=key)
    assert seen.status_code == 200, seen.text
    assert "2 inputs in 2 arms, 2 times each: 8 trials, 4 at the same time." in seen.text
    assert "Each input fills product. The first: a, b" in seen.text
    assert "&lt;i&gt;glass&lt;/i&gt;" in seen.text
    assert "<i>glass" not in seen.text
    assert await ids(rest) == []
    found = ID.search(seen.text)
    assert found is not None
    start = {**fields, "id": found[1], "start": "yes"}
    for _ in range(2):
        answer = await person.send("/experiments/new", start, key=key)
        assert answer.status_code == 303, answer.text
        assert answer.headers["location"] == f"/experiments/{found[1]}"
    assert await ids(rest) == [found[1]]
    await eventually(lambda: ended(rest, found[1]))
    # Further inputs count once, however often the form is sent.
    more = {"inputs": "product\nwood", "after": "2"}
    added = await person.send(f"/experiments/{found[1]}/inputs", more, key=key)
    assert added.status_code == 303, added.text
    again = await person.send(f"/experiments/{found[1]}/inputs", more, key=key)
    assert again.status_code == 409
    assert "wood</textarea>" in again.text
    await eventually(lambda: ended(rest, found[1]))
    assert "12 of 12 trials" in await person.see(f"/experiments/{found[1]}")


async def ended(rest: Rest, id: str) -> bool:
    return await state(rest, id) == "ended"


async def test_a_file_stands_in_place_of_what_was_pasted(rest: Rest, person: Visitor) -> None:
    key = await person.form_key("/experiments/new")
    headers = {"origin": person.url, "sec-fetch-site": "same-origin"}
    for data, told in (
        (b"product\nsteel\nglass", "The first: 1, 2"),
        (b"product\tid\nsteel\ta\nglass\t\n", "The first: a, 2"),
        ('\ufeff{"id": "x", "product": "é"}'.encode(), "The first: x"),
        (b"\xff\xfe", "no UTF-8 text"),
    ):
        body = {**await form(rest), "form_key": key}
        files = {"file": ("inputs", data, "text/csv")}
        answer = await person.client.post(
            "/experiments/new", data=body, files=files, headers=headers
        )
        assert told in answer.text


async def test_a_ready_made_task_is_named_or_fills_the_form(rest: Rest, person: Visitor) -> None:
    page = await person.see("/experiments/new")
    assert 'href="/experiments/new?task=product-page"' in page
    filled = await person.see("/experiments/new?task=product-page")
    assert "kind: refine" in filled
    key = await person.form_key("/experiments/new")
    fields = await form(rest, task="resume-parsing", inputs='{"resume": "Ann, engineer"}', arms="")
    seen = await person.send("/experiments/new", fields, key=key)
    assert seen.status_code == 200, seen.text
    assert "1 input in 3 arms" in seen.text
    unknown = await person.send("/experiments/new", {**fields, "task": "nope"}, key=key)
    assert "There is no ready-made task" in unknown.text


async def test_a_wrong_form_comes_back_with_what_is_wrong(rest: Rest, person: Visitor) -> None:
    key = await person.form_key("/experiments/new")
    for change, words in (
        ({"task": "{"}, "cannot be read as YAML"),
        ({"task": "- a"}, "no fields of a task"),
        ({"inputs": ""}, "there are none"),
        ({"inputs": '{"a": 1}\n{'}, "the inputs, line 2, is no JSON"),
        ({"inputs": "a,b\n1"}, "the inputs, line 2, has another number of cells"),
        ({"inputs": "\tproduct\n0\tsteel"}, "has no name for column 1"),
        ({"arms": "loop"}, "arms"),
        ({"score": "{chek: contains}"}, "score"),
        ({"repeats": "often"}, "repeats"),
        ({"cost_usd": "much"}, "budget"),
    ):
        for start in ({}, {"start": "yes"}):
            sent = {**await form(rest, **change), **start}
            answer = await person.send("/experiments/new", sent, key=key)
            assert answer.status_code == 422, (change, answer.text)
            assert words in html.unescape(answer.text), (change, answer.text)
            assert "single: {refine.max_iterations: 1}" in answer.text or "arms" in change
    assert await ids(rest) == []
    refused = await person.send("/experiments/new", await form(rest), key="0" * 64)
    assert refused.status_code == 403


@pytest.mark.parametrize(
    ("text", "form", "expected"),
    [
        ('{"a": 1}\n\n"b"', "auto", [{"a": 1}, "b"]),
        ('[{"a": 1}, "b"]', "auto", [{"a": 1}, "b"]),
        ('\ufeff\n{"a": 1}', "auto", [{"a": 1}]),
        ("a,b\r\n1,2", "auto", [{"a": "1", "b": "2"}]),
        ('"a","b"\n1,"2,3"', "csv", [{"a": "1", "b": "2,3"}]),
        ('"a","b"\n1,"2,3"', "auto", [{"a": "1", "b": "2,3"}]),
        ('"a, b"\n"c"', "auto", ["a, b", "c"]),
        ("a\tb\n1\t2\n3\t\n", "auto", [{"a": "1", "b": "2"}, {"a": "3", "b": ""}]),
        ("1\n2", "jsonl", [1, 2]),
    ],
)
def test_pasted_inputs_are_read_as_they_look(text: str, form: str, expected: list[object]) -> None:
    assert inputs_of(text, form) == expected


async def test_the_report_is_downloaded(person: Visitor, experiment: str) -> None:
    page = await person.see(f"/experiments/{experiment}")
    for ending, media, begins in (
        ("csv", "text/csv", "input,repeat,arm"),
        ("md", "text/markdown", r"# \<b\>"),
        ("svg", "image/svg+xml", "<svg"),
    ):
        assert f'href="/experiments/{experiment}/report.{ending}" download' in page
        answer = await person.client.get(f"/experiments/{experiment}/report.{ending}")
        assert answer.headers["content-type"].startswith(media)
        assert f"{experiment}.{ending}" in answer.headers["content-disposition"]
        assert answer.text.startswith(begins)
    assert (await person.client.get(f"/experiments/{experiment}/report.exe")).status_code == 404
    assert (await person.client.get("/experiments/nope/report.csv")).status_code == 404


async def test_one_that_has_ended_is_deleted_once_a_person_has_confirmed_it(
    person: Visitor, rest: Rest, experiment: str
) -> None:
    address = f"/experiments/{experiment}"
    assert f'href="{address}/delete"' in await person.see(address)
    asked = await person.see(f"{address}/delete")
    assert "Delete this experiment?" in asked
    assert await ids(rest) == [experiment]
    key = await person.form_key()
    gone = await person.send(f"{address}/delete", {}, key=key)
    assert (gone.status_code, gone.headers["location"]) == (303, "/experiments")
    assert await ids(rest) == []


async def test_who_may_only_look_is_offered_nothing_else(rest: Rest, experiment: str) -> None:
    async with visitor(rest, await rest.token("read")) as reader:
        address = f"/experiments/{experiment}"
        page = await reader.see(address)
        assert "report.csv" in page
        assert "Add inputs" not in page
        assert "/delete" not in page
        assert "/experiments/new" not in await reader.see("/experiments")
        key = await reader.form_key("/experiments/new")
        for path, fields in (
            (f"{address}/delete", {}),
            (f"{address}/inputs", {"inputs": "x"}),
            (f"{address}/resume", {"cost_usd": "5"}),
            ("/experiments/new", await form(rest)),
        ):
            answer = await reader.send(path, fields, key=key)
            assert answer.status_code == 403, (path, answer.text)
    assert await ids(rest) == [experiment]


async def test_a_spent_budget_is_raised_when_it_goes_on(rest: Rest, person: Visitor) -> None:
    store = rest.site.parts.stores.experiments()
    plan = Plan(
        name="n", arms=(Arm(name="loop", task={}),), budget=ExperimentBudget(cost_usd=Decimal(2))
    )
    made = StoredExperiment(id="spent", plan=plan, inputs=1, digest="d", created_at=AT)
    await store.create(made, [Entry(name="a")])
    await store.note("spent", "ended", reason="budget", at=AT)
    page = await person.see("/experiments/spent")
    assert 'name="cost_usd" inputmode="decimal" value="2"' in page
    key = await person.form_key()
    wrong = await person.send("/experiments/spent/resume", {"cost_usd": "much"}, key=key)
    assert wrong.status_code == 422
    assert "cost_usd" in wrong.text
    answer = await person.send("/experiments/spent/resume", {"cost_usd": "7.5"}, key=key)
    assert answer.status_code == 303, answer.text
    found = await store.get("spent")
    assert found is not None
    assert (found.plan.budget.cost_usd, found.state) == (Decimal("7.5"), "running")


async def test_the_budget_of_one_that_runs_is_set_in_money_and_tokens(
    rest: Rest, person: Visitor
) -> None:
    store = rest.site.parts.stores.experiments()
    budget = ExperimentBudget(cost_usd=Decimal(2), tokens=1000)
    plan = Plan(name="n", arms=(Arm(name="loop", task={}),), budget=budget)
    made = StoredExperiment(id="runs", plan=plan, inputs=1, digest="d", created_at=AT)
    await store.create(made, [Entry(name="a")])
    page = await person.see("/experiments/runs")
    assert "Set the budget" in page
    assert 'name="tokens" inputmode="numeric" value="1000"' in page
    key = await person.form_key()
    fields = {"cost_usd": "", "tokens": "5000"}
    answer = await person.send("/experiments/runs/resume", fields, key=key)
    assert answer.status_code == 303, answer.text
    found = await store.get("runs")
    assert found is not None
    assert found.plan.budget == ExperimentBudget(cost_usd=Decimal(2), tokens=5000)
