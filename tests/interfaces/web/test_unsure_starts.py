"""A start without an answer may have begun: pressed again, no second one begins."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import unquote

import pytest
from page_visit import Visitor, visitor
from pydantic import JsonValue
from rest import ANSWERS, TASK, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

from perdure.interfaces.web.api_calls import Api, ApiProblem
from perdure.interfaces.web.visit import kept_key

HIDDEN = re.compile(r'<input type="hidden" name="(key|id|once|unsure)" value="([^"]+)"')
EXPERIMENT = {
    "name": "bottles",
    "task": "kind: agent\ngoal: look\nlearn: false",
    "inputs": "product\nsteel",
    "arms": "single: {}",
    "score": "{check: contains, all: [answer]}",
    "cost_usd": "1",
}
SCHEDULE: dict[str, JsonValue] = {
    "name": "often", "task": TASK, "times": {"every_s": 86_400}, "paused": True,
}  # fmt: skip
PLACES = {
    "a run": ("/new", {"kind": "agent", "goal": "look", "start": "yes"}),
    "an experiment": ("/experiments/new", EXPERIMENT | {"start": "yes"}),
    "a fork": ("/runs/{run}/iterations/1/fork", {"label": "forked"}),
    "a scheduled task": ("/schedules/often/trigger", {}),
}


@pytest.fixture
async def answering(tmp_path: Path, server: WorkflowEnvironment) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path, address, ANSWERS) as site, site.worker(), served(site) as rest:
        yield rest


def hidden(page: str) -> dict[str, str]:
    """What the form on a page says of the start that it is for."""
    return dict(HIDDEN.findall(page))


async def shown(person: Visitor, path: str) -> dict[str, str]:
    return hidden(await person.see(path.removesuffix("/trigger")))


@pytest.mark.parametrize(("path", "fields"), PLACES.values(), ids=PLACES)
async def test_what_is_pressed_again_is_started_once(
    answering: Rest, path: str, fields: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await answering.start(TASK)
    await answering.ended(run)
    path = path.format(run=run)
    if "schedules" in path:
        made = await answering.client.post("/api/v1/schedules", json=SCHEDULE)
        assert made.status_code == 201, made.text
    post, came = Api.post, list[str]()

    async def unheard(api: Api, path: str, shape: type, *more: object, **named: object) -> object:
        found = await post(api, path, shape, *more, **named)  # type: ignore[arg-type]
        if path.endswith("/plan"):
            return found
        came.append(getattr(found, "id", None) or found.run)
        if len(came) == 1:
            raise ApiProblem(503, "service_unavailable", "No answer came.")
        return found

    monkeypatch.setattr(Api, "post", unheard)
    async with visitor(answering, await answering.token("admin")) as person:
        key = await person.form_key()
        first = await person.send(path, {**fields, **await shown(person, path)}, key=key)
        assert first.status_code == 503
        if "start" in fields:  # what is changed and refused meanwhile is no other start
            wrong = {**fields, "cost_usd": "much", **hidden(first.text)}
            first = await person.send(path, wrong, key=key)
            assert first.status_code == 422
            looked = {name: value for name, value in fields.items() if name != "start"}
            first = await person.send(path, {**looked, **hidden(first.text)}, key=key)
            assert first.status_code == 200
        again = await person.send(path, {**fields, **hidden(first.text)}, key=key)
        assert again.status_code == 303, again.text
    assert len(came) == 2
    assert came[0] == came[1]
    assert unquote(again.headers["location"]).endswith(came[0])


@pytest.mark.parametrize(
    ("status", "unsure", "kept"),
    [
        (None, False, ""), (422, False, ""), (409, False, ""), (503, False, "k"), (500, True, "k"),
        (None, True, "k"), (422, True, "k"), (409, True, ""),
    ],
)  # fmt: skip
def test_a_key_stays_until_it_is_known_what_came_of_it(
    status: int | None, unsure: bool, kept: str
) -> None:
    problem = None if status is None else ApiProblem(status, "p", "p")
    assert kept_key({"key": "k"} | ({"unsure": "yes"} if unsure else {}), problem) == kept
