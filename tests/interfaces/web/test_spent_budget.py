"""The card of a spent budget: who may raise it, and what a raise without a limit does."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from account_books import Books
from page_visit import Visitor, visitor
from rest import TASK, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

LOOK: dict[str, object] = {"tool_calls": [{"name": "fs.list", "arguments": {"path": "."}}]}
LOOKING = {"replies": [LOOK, {"text": "done"}]}
SPENT = TASK | {
    "budget": {"tool_calls": 1, "on_exhausted": "ask"},
    "tools": {"access": "full", "allow": ["fs.list"]},
}


@pytest.fixture
async def asked(tmp_path: Path, server: WorkflowEnvironment) -> AsyncIterator[Rest]:
    """With a worker, and a model that looks around."""
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path, address, LOOKING) as site, site.worker(), served(site) as rest:
        yield rest


async def _waiting(rest: Rest) -> str:
    run = await rest.start(SPENT)

    async def listed() -> bool:
        found = (await rest.client.get("/api/v1/gates", params={"limit": 100})).json()
        return run in {one["run"] for one in found["items"]}

    await eventually(listed)
    return run


async def _answer(person: Visitor, run: str, **fields: str) -> tuple[int, str]:
    key = await person.form_key()
    sent = await person.send(f"/runs/{run}/gates/g1/answer", fields, key=key)
    return sent.status_code, sent.text


async def test_a_budget_is_raised_by_who_may_with_a_limit(asked: Rest) -> None:
    run = await _waiting(asked)
    async with visitor(asked, await asked.token("read", "answer")) as clerk:
        page = await clerk.see(f"/runs/{run}")
        assert 'value="raise"' not in page
        assert 'value="end"' in page
        assert 'name="limit:' not in page
        assert "takes a token with the scope operate" in page
        status, told = await _answer(clerk, run, choice="raise")
        assert (status, "--budget tool_calls=" in told) == (409, True)
    async with visitor(asked, await asked.token("read", "answer", "operate")) as chief:
        page = await chief.see(f"/runs/{run}")
        assert 'value="raise"' in page
        assert "Tool calls, now 1 <input" in page
        status, told = await _answer(chief, run, choice="raise")
        assert (status, "tool_calls: 1 of 1" in told) == (409, True)
        assert (await _answer(chief, run, choice="raise", **{"limit:tool_calls": "5"}))[0] == 303
    assert (await asked.ended(run))["outcome"] == "accepted"


async def test_a_raise_that_comes_too_late_changes_no_limit(asked: Rest) -> None:
    run = await _waiting(asked)
    async with visitor(asked, await asked.token("admin")) as person:
        assert (await _answer(person, run, choice="end"))[0] == 303
        late = {"limit:tool_calls": "5", "limit:cost_usd": "7"}
        status, told = await _answer(person, run, choice="raise", **late)
    assert status in {404, 409}
    assert "What became of the question: end, by test" in told
    assert "hold all the same" not in told
    assert "cost usd" in told, "what was filled in is shown"
    found = (await asked.client.get(f"/api/v1/loops/{run}")).json()
    assert found["budget"]["limits"]["tool_calls"] == 1


async def test_what_was_taken_of_a_refused_form_is_told(asked: Rest) -> None:
    run = await _waiting(asked)
    async with visitor(asked, await asked.token("admin")) as person:
        fields = {"max_iterations": "77", "cost_usd": "much", "guidance": "be <b>brief</b>"}
        sent = await person.send(f"/runs/{run}/amend", fields, key=await person.form_key())
    assert sent.status_code == 409
    assert "The limit of 77 iterations was taken all the same." in sent.text
    wrote = sent.text.partition("It was not sent on.")[2].partition("</section>")[0]
    assert "be &lt;b&gt;brief&lt;/b&gt;" in wrote
    assert "77" not in wrote
    assert (await asked.client.get(f"/api/v1/loops/{run}")).json()["iteration_limit"] == 77


async def test_words_sent_twice_by_one_form_are_said_once(asked: Rest) -> None:
    run = await _waiting(asked)
    async with visitor(asked, await asked.token("admin")) as person:
        page, key = await person.see(f"/runs/{run}"), await person.form_key()
        last = re.search(r'name="once" value="(\d+)"', page)
        assert last is not None
        for text in ("be brief", "be brief", "be kind"):
            sent = await person.send(f"/runs/{run}/input", {"text": text, "once": last[1]}, key=key)
            assert sent.status_code == 303
    events = (await asked.client.get(f"/api/v1/loops/{run}")).json()["events"]
    assert [one["type"] for one in events].count("input_added") == 2


async def test_the_page_of_a_run_says_what_was_spent_on_learning_from_it(asked: Rest) -> None:
    run = await _waiting(asked)
    await Books(asked.site.parts.stores.database).call("0.25", root=f"learn-{run}")
    async with visitor(asked, await asked.token("read")) as person:
        page = await person.see(f"/runs/{run}")
    assert "What was learned from this run cost $0.25 more: 1 call" in page
