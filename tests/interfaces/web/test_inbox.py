"""The inbox over HTTP: what is to be decided, several at once, and who was first."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from page_visit import Visitor, visitor
from rest import APPROVED, ASKING, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.domain.foundation.errors import StoreError
from perdure.domain.run.gates import Gate
from perdure.domain.run.status import RunStatus
from perdure.gateway.types import OpenGate
from perdure.interfaces.gateways import RunGateway
from perdure.interfaces.rest.schemas import Gates
from perdure.interfaces.run_tree import gates_of_tree
from perdure.interfaces.web.inbox.routes import seen_of
from perdure.interfaces.web.rendering import rendered

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)


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

    await eventually(listed)


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
        assert '<th scope="row" title="expected_hash">Replaces</th>' in page
        assert "<td>nothing: the file is new</td>" in page
        assert re.search(r'data-open="\d+', await person.see("/inbox/count"))
        await _several(person, page, runs)
        for run in runs:
            assert (await asked.ended(run))["tools_used"] == {"fs.write": 1}
        status, _ = await _again(person, page, runs[0], choice="approve")
        assert status == 303, "the same answer again, as from a double tap, is the same answer"
        words = {"choice": "deny", "text": "not <b>this</b> file"}
        status, late = await _again(person, page, runs[0], **words)
        assert status in {404, 409}
        assert "Your answer was not taken" in late
        assert "What became of the question: approve, by test" in late
        assert "not &lt;b&gt;this&lt;/b&gt; file" in late, "nobody writes a text twice"
        await _several(person, page, runs)
        had = {"had": " ".join(values(page, runs)[0].split(" ")[:2]), "seen": "before"}
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
        moment = re.search(rf'/runs/{run}/gates/.*?name="asked" value="([^"]+)"', page, re.S)
        assert moment is not None
        answer = {"choice": "approve", "args_hash": hash, "here": "/inbox"}
        key = await person.form_key("/inbox")
        anew = answer | {"asked": "2026-01-01T00:00:00+00:00"}
        stale = await person.send(f"/runs/{run}/gates/{gate}/answer", anew, key=key)
        assert (stale.status_code, "was asked anew" in stale.text) == (409, True)
        answer["asked"] = moment[1]
        sent = await person.send(f"/runs/{run}/gates/{gate}/answer", answer, key=key)
        assert sent.status_code == 303
        told = await person.see(sent.headers["location"])
    assert f"Answered: {gate} of look around: approve, by test" in told


async def test_an_answer_to_nothing_says_what_to_do(person: Visitor) -> None:
    told = await person.send("/inbox/alike", {"choice": "deny"}, key=await person.form_key())
    assert (told.status_code, "Nothing was ticked" in told.text) == (200, True)


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


async def _again(person: Visitor, page: str, run: str, **fields: str) -> tuple[int, str]:
    name, hash = values(page, (run,))[0].split(" ")[1:3]
    answer = await person.send(
        f"/runs/{run}/gates/{name}/answer",
        {**fields, "args_hash": hash},
        key=await person.form_key(),
    )
    return answer.status_code, answer.text


@pytest.mark.parametrize(
    ("count", "cursor", "newest"), [(0, None, ["0"]), (2, None, ["2.0"]), (2, "more", [])]
)
def test_the_count_says_when_the_newest_was_asked(
    count: int, cursor: str | None, newest: list[str]
) -> None:
    gates = [
        Gate(
            id=f"g{at}",
            kind="question",
            prompt="?",
            choices=(),
            opened_at=datetime.fromtimestamp(at, UTC),
        )
        for at in range(1, count + 1)
    ]
    items = tuple(OpenGate(run="r", kind="agent", goal="g", gate=gate) for gate in gates)
    page = rendered("inbox/count.html", NOW, open_gates=Gates(items=items, cursor=cursor))
    assert re.findall(r'data-newest="([^"]+)"', page) == newest
    assert f'data-open="{count}{"+" if cursor else ""}"' in page


REASON = "It is <b>sealed</b> with the key k1. Get the key."


@pytest.mark.parametrize("why", [None, REASON])
def test_a_run_whose_questions_are_not_known_says_why(why: str | None) -> None:
    found = Gates(unread=("r1",), reasons={"r1": why} if why else {})
    page = rendered(
        "inbox/cards.html", NOW, cards=(), groups={}, unread=found.unread, reasons=found.reasons,
        gone=(), cursor=None, now_at=None, seen="", part=False, can=lambda _: True, form_key="",
    )  # fmt: skip
    assert ("its worker does not answer" in page) == (why is None)
    assert ("It is &lt;b&gt;sealed&lt;/b&gt; with the key k1. Get the key." in page) == bool(why)
    assert "Nothing waits for you" not in page
    assert seen_of(found) != seen_of(Gates(unread=("r1",), reasons={"r1": "another"}))


async def test_a_run_below_whose_answer_is_sealed_says_why() -> None:
    below = status("r-below", lifecycle="waiting", source="store", trouble=REASON)
    asked = {"run": "r-below", "gate": "g1", "kind": "question", "prompt": "?", "opened_at": NOW}
    above = status("r", lifecycle="waiting", questions=(asked, {**asked, "run": "r-gone"}))

    class Reading:
        async def status(self, run: str) -> RunStatus:
            if run == "r-gone":
                raise StoreError("It was sealed.", cure="Get the codec.")
            return below

    found = await gates_of_tree(cast(RunGateway, Reading()), above)
    assert set(found.unread) == {"r-below", "r-gone"}
    assert found.reasons == {"r-below": REASON, "r-gone": "It was sealed. Get the codec."}


def status(run: str, **given: object) -> RunStatus:
    common = {"id": run, "kind": "roles", "goal": "g", "phase": "working"}
    return RunStatus.model_validate({**common, "budget": {"limits": {}}, **given})
