"""The views of schedules: an empty list, a form, one with its starts, and its verbs."""

import asyncio
import html
import re

import pytest
from page_visit import Visitor, visitor
from rest import Rest
from waiting import eventually

FORM = {
    "name": "news",
    "task": "kind: agent\ngoal: <b>Write</b> the news.\nlearn: false",
    "cron": "0 9 * * MON-FRI",
    "time_zone": "Europe/Berlin",
    "overlap": "skip",
    "tokens": "50000",
}


@pytest.mark.usefixtures("site")  # it has a worker
async def test_a_trigger_sent_twice_without_scripts_starts_once(person: Visitor) -> None:
    key = await person.form_key("/schedules/new")
    form = FORM | {"overlap": "allow_all"}
    assert (await person.send("/schedules/new", form, key=key)).status_code == 303
    runs = []
    for _ in range(2):
        found = re.search(r'name="once" value="(\w+)"', await person.see("/schedules/news"))
        assert found is not None
        once = {"once": found[1]}
        sent = [await person.send("/schedules/news/trigger", once, key=key) for _ in "12"]
        runs.append({answer.headers["location"] for answer in sent})
        await asyncio.sleep(1)  # ids of runs hold the second
    assert [len(each) for each in runs] == [1, 1]
    assert runs[0] != runs[1], "a page that was opened anew starts anew"


@pytest.mark.parametrize("path", ["/schedules/new", "/experiments/new", "/new"])
async def test_a_form_of_many_values_holds_nobody_up(rest: Rest, path: str) -> None:
    """Whoever may only read can send a form too; it took half a minute, and all others waited."""
    many = {"task": f"a: [{'x,' * 300_000}]", "name": "news", "inputs": "a", "goal": "g"}
    many["more"] = many["task"] if path == "/new" else ""
    many["task"] = "" if path == "/new" else many["task"]
    async with visitor(rest, await rest.token("read")) as reader:
        key = await reader.form_key()
        fields = {name: (None, text) for name, text in {**many, "form_key": key}.items()}
        sent = asyncio.create_task(reader.client.post(path, files=fields))
        await asyncio.sleep(0.2)
        async with rest.caller() as other:
            assert (await other.get("/healthz")).status_code == 200
        assert not sent.done(), "the form is still being read"
        answer = await sent
        assert answer.status_code == 422
        assert "it holds more than 50000 values" in answer.text


@pytest.mark.parametrize("path", ["/schedules/new", "/experiments/new"])
async def test_the_example_in_the_form_is_a_whole_task(person: Visitor, path: str) -> None:
    page = await person.see(path)
    example = re.search(r'<textarea name="task"[^>]* placeholder="([^"]+)"', page)
    assert example is not None
    fields = {"name": "news", "cron": "0 9 * * *", "inputs": "a\nb", "arms": "loop: {}"}
    key = await person.form_key(path)
    for task, told in ((html.unescape(example[1]), ""), ("- a", "no fields of a task, such as")):
        answer = await person.send(path, {**fields, "task": task}, key=key)
        text = html.unescape(answer.text)
        assert "kind: found nothing" not in text
        assert told in text
    named = re.search(r"such as `(.*?)`", text)
    assert named is not None
    answer = await person.send(path, {**fields, "task": named[1]}, key=key)
    assert "kind: found nothing" not in html.unescape(answer.text)


async def test_an_empty_list_says_what_to_do(person: Visitor) -> None:
    page = await person.see("/schedules")
    assert "Nothing is scheduled." in page
    assert 'href="/schedules/new"' in page
    assert "perdure schedule create NAME TASK" in page


@pytest.mark.usefixtures("site")
async def test_a_schedule_is_made_steered_and_deleted(person: Visitor) -> None:
    key = await person.form_key("/schedules/new")
    made = await person.send("/schedules/new", FORM, key=key)
    assert (made.status_code, made.headers["location"]) == (303, "/schedules/news"), made.text
    page = await person.see("/schedules/news")
    assert "0 9 * * MON-FRI in Europe/Berlin" in page
    assert "50.0k tokens a month" in page or "50k tokens a month" in page
    assert "&lt;b&gt;Write&lt;/b&gt; the news." in page
    assert "<b>Write" not in page
    paused = await person.send("/schedules/news/pause", {}, key=key)
    assert paused.status_code == 303
    assert '<span class="state paused">paused</span>' in await person.see("/schedules/news")
    await _started(person, key)
    assert 'href="/schedules/news"' in await person.see("/schedules")
    gone = await person.send("/schedules/news/delete", {}, key=key)
    assert gone.headers["location"] == "/schedules"
    assert (await person.client.get("/schedules/news")).status_code == 404


async def _started(person: Visitor, key: str) -> None:
    started = await person.send("/schedules/news/trigger", {}, key=key)
    assert started.status_code == 303, started.text
    assert started.headers["location"].startswith("/runs/news-")

    async def began() -> bool:
        run = started.headers["location"]
        return f'<a href="{run}">' in (await person.see("/schedules/news")).split("Last starts")[1]

    await eventually(began)


async def test_a_form_of_another_session_changes_nothing(person: Visitor) -> None:
    refused = await person.send("/schedules/new", FORM, key="0" * 64)
    assert refused.status_code == 403
    assert "Nothing is scheduled." in await person.see("/schedules")


async def test_a_wrong_form_comes_back_with_what_is_wrong(person: Visitor) -> None:
    key = await person.form_key("/schedules/new")
    for change, words in (
        ({"cron": "0 0 31 2 *"}, "never come"),
        ({"time_zone": "Mars"}, "no time zone"),
        ({"task": "{"}, "cannot be read as YAML"),
        ({"task": "- a"}, "no fields of a task"),
        ({"cron": "", "every_hours": "often"}, "every_s"),
        ({"tokens": "many"}, "tokens"),
    ):
        answer = await person.send("/schedules/new", {**FORM, **change}, key=key)
        assert answer.status_code == 422, (change, answer.text)
        assert words in answer.text, change
        assert 'value="news"' in answer.text


async def test_the_form_begins_with_a_ready_made_task(person: Visitor) -> None:
    page = await person.see("/schedules/new?task=release-notes")
    assert 'value="release-notes"' in page
    assert "goal:" in page
