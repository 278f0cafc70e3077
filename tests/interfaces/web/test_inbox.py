"""The inbox over HTTP: what is to be decided, several at once, and who was first."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from page_visit import Visitor, visitor
from rest import APPROVED, ASKING, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment
from waiting import eventually


@pytest.fixture
async def asked(tmp_path: Path, server: WorkflowEnvironment) -> AsyncIterator[Rest]:
    """With a worker, and a model that wants to write a file."""
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path, address, ASKING) as site, site.worker(), served(site) as rest:
        yield rest


async def waiting(rest: Rest, *runs: str) -> None:
    async def listed() -> bool:
        found = (await rest.client.get("/api/v1/gates", params={"limit": 100})).json()
        return set(runs) <= {one["run"] for one in found["items"]}

    await eventually(listed, seconds=60)


def values(page: str, runs: tuple[str, ...]) -> list[str]:
    """The boxes of runs in the inbox."""
    return [one for one in re.findall(r'name="gate" value="([^"]+)"', page) if one.startswith(runs)]


async def test_a_call_is_approved_with_its_diff_in_view(asked: Rest) -> None:
    runs = (await asked.start(APPROVED), await asked.start(APPROVED))
    await waiting(asked, *runs)
    async with visitor(asked, await asked.token("admin")) as person:
        page = await person.see("/inbox")
        assert '<span class="added"><span class="hidden">added: </span>+x' in page
        assert "the call is denied, and the run goes on without it" in page
        assert re.search(r'data-open="\d+', await person.see("/inbox/count"))
        await _several(person, page, runs)
        for run in runs:
            assert (await asked.ended(run))["tools_used"] == {"fs.write": 1}
        late = await _again(person, page, runs[0])
        assert "Your answer was not taken" in late
        had = {"had": values(page, runs)[0].rpartition(" ")[0], "seen": "before"}
        part = await person.client.get("/inbox", params=had, headers={"hx-request": "true"})
        assert "approve, by test" in part.text


async def test_who_answered_is_told_what_became_of_it(asked: Rest) -> None:
    run = await asked.start(APPROVED)
    await waiting(asked, run)
    async with visitor(asked, await asked.token("admin")) as person:
        page = await person.see("/inbox")
        form = re.search(
            rf'/runs/{run}/gates/([^/]+)/answer.*?name="args_hash" value="(\w+)"', page, re.S
        )
        assert form is not None
        gate, hash = form.groups()
        answer = {"choice": "approve", "args_hash": hash, "here": "/inbox"}
        key = await person.form_key("/inbox")
        sent = await person.send(f"/runs/{run}/gates/{gate}/answer", answer, key=key)
        assert sent.status_code == 303
        told = await person.see(sent.headers["location"])
    assert f"Answered: {gate} of look around: approve, by test" in told


async def test_an_inbox_that_stayed_the_same_sends_nothing(person: Visitor) -> None:
    seen = re.search(r'name="seen" class="seen" value="(\w+)"', await person.see("/inbox"))
    assert seen is not None
    headers = {"hx-request": "true"}
    same = await person.client.get("/inbox", params={"seen": seen[1]}, headers=headers)
    assert same.status_code in {200, 204}, "a neighbour may have asked something"
    other = await person.client.get("/inbox", params={"seen": "other"}, headers=headers)
    assert other.status_code == 200


async def _several(person: Visitor, page: str, runs: tuple[str, ...]) -> None:
    chosen = values(page, runs)
    assert len(chosen) == len(runs)
    body = {"form_key": await person.form_key(), "choice": "approve", "gate": chosen}
    headers = {"origin": person.url, "sec-fetch-site": "same-origin"}
    answer = await person.client.post("/inbox/alike", data=body, headers=headers)
    assert answer.status_code == 303, answer.text
    told = await person.see(answer.headers["location"])
    assert told.count("look around: approve, by test") == len(runs)


async def _again(person: Visitor, page: str, run: str) -> str:
    name, hash = values(page, (run,))[0].split(" ")[1:]
    fields = {"choice": "approve", "args_hash": hash}
    answer = await person.send(
        f"/runs/{run}/gates/{name}/answer", fields, key=await person.form_key()
    )
    assert answer.status_code in {404, 409}
    return answer.text
