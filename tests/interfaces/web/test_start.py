"""The form of a new run: what it means, what it could cost, and that it starts once."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from page_visit import visitor
from pydantic import JsonValue
from rest import Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.interfaces.rest.tasks import ReadyTask
from perdure.interfaces.web.api_calls import ApiProblem
from perdure.interfaces.web.start.task_form import PARTS, TaskForm

JUDGED = {"judge": {}}
STEEL = {"check": "contains", "all": ["steel", "soap"]}
SHORT = {"check": "length", "unit": "words", "max": 60}
NAMED = {"kind": "agent", "goal": "look", "model": "local", "cost_usd": "0.50", "label": "x"}
DEMANDED = {"kind": "refine", "mention": "steel, soap", "demands": "Be kind.\n\n"}
MORE = "budget: {tokens: 5}\ntools: {access: full}"


@pytest.mark.parametrize(
    ("fields", "means"),
    [
        ({"kind": "agent", "goal": "look"}, {"kind": "agent", "goal": "look"}),
        (
            {"kind": "agent", "goal": "look", "model": "local", "cost_usd": "0.50", "label": "x"},
            {
                "models": {"executor": "local"},
                "budget": {"cost_usd": "0.50"},
                "metadata": {"label": "x"},
            },
        ),
        ({"kind": "agent", "max_iterations": "3"}, {"agent": {"max_iterations": 3}}),
        ({"kind": "delegation", "max_iterations": "3"}, {"delegation": {"max_iterations": 3}}),
        ({"kind": "agent", "max_iterations": "three"}, {"agent": {"max_iterations": "three"}}),
        (
            {"kind": "roles", "definition": "code-review", "max_iterations": "2"},
            {"roles": {"definition": "code-review", "max_iterations": 2}},
        ),
        (
            {
                "kind": "refine",
                "mention": "steel, soap",
                "most_words": "60",
                "demands": "Be kind.\n\n",
            },
            {
                "rubric": [
                    {
                        "name": "mentions",
                        "evaluator": {"check": "contains", "all": ["steel", "soap"]},
                    },
                    {
                        "name": "length",
                        "evaluator": {"check": "length", "unit": "words", "max": 60},
                    },
                    {"name": "Be kind", "description": "Be kind.", "evaluator": JUDGED},
                ]
            },
        ),
        (
            {
                "kind": "agent",
                "cost_usd": "1",
                "more": "budget: {tokens: 5}\ntools: {access: full}",
            },
            {"budget": {"cost_usd": "1", "tokens": 5}, "tools": {"access": "full"}},
        ),
        ({"kind": "refine", "demands": "x", "more": "rubric: []"}, {"rubric": []}),
    ],
    ids=[
        "agent",
        "model",
        "iterations",
        "decisions of a manager",
        "a word for a number",
        "roles",
        "demands",
        "more",
        "more wins",
    ],
)
def test_what_a_form_means(fields: dict[str, str], means: dict[str, Any]) -> None:
    task = TaskForm.read(fields).task()
    assert {name: task[name] for name in means} == means


def test_what_a_person_writes_wins_over_the_ready_made_task() -> None:
    fields: dict[str, JsonValue] = {
        "kind": "refine", "goal": "look", "budget": {"cost_usd": 1.5, "tokens": 9},
        "models": {"executor": "local"}, "refine": {"max_iterations": 4, "threshold": 0.9},
        "metadata": {"label": "x"}, "rubric": [],
    }  # fmt: skip
    form = TaskForm.of(ReadyTask(name="n", about="", kind="refine", fields=fields))
    shown = (form.cost_usd, form.model, form.max_iterations, form.label)
    assert shown == ("1.5", "local", "4", "x")
    written = {"cost_usd": "0.10", "model": "haiku", "max_iterations": "2", "label": ""}
    task = form.model_copy(update=written).task()
    assert task == {
        "kind": "refine", "goal": "look", "budget": {"cost_usd": "0.10", "tokens": 9},
        "models": {"executor": "haiku"}, "refine": {"max_iterations": 2, "threshold": 0.9},
        "rubric": [],
    }  # fmt: skip


def test_a_parameter_among_further_fields_keeps_those_of_the_form() -> None:
    form = TaskForm(
        kind="roles",
        goal="g",
        definition="harness",
        parameters={"tone": "dry", "reader": "a child"},
        more="roles: {parameters: {tone: warm}}\ncontext: {a: {b: 1}}",
        inputs={"note": "n"},
    )
    task = form.task()
    assert task["roles"] == {
        "definition": "harness",
        "parameters": {"tone": "warm", "reader": "a child"},
    }
    assert task["context"] == {"note": "n", "a": {"b": 1}}


def test_demands_that_begin_alike_have_names_of_their_own() -> None:
    long = "It has to say in words that a child understands what the bottle is made"
    demands = f"{long} of.\n{long} for.\nLength.\n..."
    rubric: Any = TaskForm(goal="g", demands=demands).task()["rubric"]
    assert [one["name"] for one in rubric] == [long[:60], f"{long[:60]} 2", "Length", "demand"]
    assert [one["description"] for one in rubric] == demands.split("\n")


def test_without_demands_the_goal_itself_says_them() -> None:
    task = TaskForm(goal="Write a text of at most 60 words about soap.").task()
    rubric = task["rubric"]
    assert isinstance(rubric, list) and len(rubric) >= 2
    assert "judge" in str(rubric[-1])


@pytest.mark.parametrize("more", ["a: [", "just words", "- a list"])
def test_what_is_no_yaml_is_said_at_its_field(more: str) -> None:
    with pytest.raises(ApiProblem) as caught:
        TaskForm(goal="g", more=more).task()
    assert caught.value.problems[0].startswith("more: ")


@pytest.fixture
async def answering(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    script = {"replies": [{"text": "an answer"}], "exhausted": "repeat_last"}
    async with (
        scripted(tmp_path / "home", address, script) as site,
        site.worker(),
        served(site) as rest,
    ):
        yield rest


OPEN_PARTS = {*PARTS}
FORM = {"kind": "agent", "goal": "Say <b>something</b>", "cost_usd": "0.10"}


async def test_a_run_is_looked_over_and_then_started_once(answering: Rest) -> None:
    async with visitor(answering, await answering.token("operate")) as person:
        key = await person.form_key("/new")
        looked = await person.send("/new", FORM, key=key)
        assert looked.status_code == 200
        assert "$0.10 at most" in looked.text
        assert "Say &lt;b&gt;something&lt;/b&gt;" in looked.text
        once = re.search(r'name="key" value="(\w+)"', looked.text)
        assert once is not None
        order = FORM | {"start": "yes", "key": once[1]}
        first = await person.send("/new", order, key=key)
        again = await person.send("/new", order, key=key)
        assert first.status_code == again.status_code == 303
        assert first.headers["location"] == again.headers["location"]
        run = first.headers["location"].rpartition("/")[2]
        await answering.ended(run)
        assert "an answer" in await person.see(f"/runs/{run}")


async def test_what_is_wrong_is_said_and_nothing_is_lost(answering: Rest) -> None:
    async with visitor(answering, await answering.token("operate")) as person:
        key = await person.form_key("/new")
        wrong = FORM | {"max_iterations": "many", "label": "mine", "start": "yes"}
        answer = await person.send("/new", wrong, key=key)
        assert answer.status_code == 422
        assert "max_iterations" in answer.text
        for kept in ("many", "mine", "Say &lt;b&gt;"):
            assert kept in answer.text


async def test_who_may_only_read_starts_nothing(answering: Rest) -> None:
    async with visitor(answering, await answering.token("read")) as person:
        key = await person.form_key("/new")
        answer = await person.send("/new", FORM | {"start": "yes"}, key=key)
        assert answer.status_code == 403
        assert "lacks the scope operate" in answer.text


async def test_a_ready_made_task_begins_the_form_and_runs(answering: Rest) -> None:
    async with visitor(answering, await answering.token("operate")) as person:
        assert "/new?task=job-matching" in await person.see("/new")
        shown = await person.see("/new?task=job-matching")
        assert re.search(r'name="input:profile"[^>]* required', shown)
        task = await _ready(answering, "job-matching")
        form = TaskForm.of(task)
        assert "null" not in form.more
        fields = form.model_dump(exclude=OPEN_PARTS, mode="json")
        key = await person.form_key("/new")
        lacking = await person.send(
            "/new", fields | {"input:profile": "a", "input:postings": ""}, key=key
        )
        assert lacking.status_code == 422
        assert "context.postings" in lacking.text
        given = {"input:profile": "a smith", "input:postings": "a forge looks for a smith"}
        looked = await person.send("/new", fields | given, key=key)
        assert looked.status_code == 200
        assert 'id="plan"' in looked.text


async def test_every_ready_made_task_is_a_form_that_can_be_looked_over(answering: Rest) -> None:
    names = [one["name"] for one in (await answering.client.get("/api/v1/tasks")).json()["items"]]
    assert len(names) >= 8
    async with visitor(answering, await answering.token("operate", "execute")) as person:
        key = await person.form_key("/new")
        for name in names:
            task = await _ready(answering, name)
            form = TaskForm.of(task)
            fields = form.model_dump(exclude=OPEN_PARTS, mode="json")
            fields |= {f"input:{one}": "some text" for one in task.inputs}
            if task.needs_folder:
                folder = answering.site.home / name
                folder.mkdir()
                fields["folder"] = str(folder)
            looked = await person.send("/new", fields, key=key)
            assert 'id="plan"' in looked.text, (name, looked.text)


async def test_an_unknown_ready_made_task_is_said(answering: Rest) -> None:
    found = await answering.client.get("/api/v1/tasks/job-matcher")
    assert found.status_code == 404
    assert "job-matching" in found.text


async def _ready(rest: Rest, name: str) -> ReadyTask:
    return ReadyTask.model_validate((await rest.client.get(f"/api/v1/tasks/{name}")).json())


LOOP = """
name: told
description: Takes parameters of every form.
parameters:
  - {name: subject, description: "what <b>it</b> is about"}
  - {name: depth, default: moderate, choices: [shallow, moderate, deep]}
  - {name: pace, description: how fast, choices: [1, 2]}
  - {name: rounds, default: 3}
  - {name: careful, default: true}
roles:
  - {name: look, prompt: "{{subject}} {{depth}} {{pace}} {{rounds}} {{careful}}"}
termination_condition: {type: iteration_bound, iterations: 1}
"""
ROLES = {"kind": "roles", "goal": "look", "definition": "told", "cost_usd": "0.10"}


async def test_the_parameters_of_a_loop_are_fields(answering: Rest) -> None:
    fields = yaml.safe_load(LOOP)
    async with visitor(answering, await answering.token("operate", "admin", "execute")) as person:
        put = await answering.client.post(
            "/api/v1/loops/definitions", json=fields, headers={"if-none-match": "*"}
        )
        assert put.status_code == 201, put.text
        key = await person.form_key("/new")
        shown = (await person.send("/new", ROLES | {"fields": "yes", "goal": ""}, key=key)).text
        assert 'id="plan"' not in shown
        assert "what &lt;b&gt;it&lt;/b&gt; is about" in shown
        assert re.search(r'name="parameter:subject"[^>]* required', shown)
        assert re.search(r'name="parameter:pace" required><option value="">choose one', shown)
        assert '<option value="moderate">moderate (default)</option>' in shown
        assert "default: 3" in shown
        assert '<option value="true">true (default)</option>' in shown
        lacking = await person.send("/new", ROLES | {"parameter:depth": "deepest"}, key=key)
        assert lacking.status_code == 422
        for told in ("no value for subject, pace", "one of shallow, moderate, deep"):
            assert told in lacking.text
        given = {"parameter:subject": "bees", "parameter:pace": "2", "parameter:depth": "deep"}
        strange = {"parameter:of_another_loop": "x"}
        looked = await person.send("/new", ROLES | given | strange, key=key)
        assert looked.status_code == 200, looked.text
        assert 'id="plan"' in looked.text
        assert '<option value="deep" selected>' in looked.text
        begun = await person.send("/new", ROLES | given | {"start": "yes"}, key=key)
        assert begun.status_code == 303
        run = begun.headers["location"].rpartition("/")[2]
        spec = (await answering.client.get(f"/api/v1/loops/{run}/specification")).json()
        assert spec["roles"]["parameters"] == {"subject": "bees", "pace": "2", "depth": "deep"}
        await answering.ended(run)
