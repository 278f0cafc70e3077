"""People start a loop by the form of the Temporal Web UI, with nothing but its task."""

import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from installation import Installation, dev_server, installation
from playwright.async_api import expect
from temporalio.client import WorkflowFailureError
from waiting import eventually
from web_ui import WebUI, web_ui


async def test_a_task_is_started_by_the_form(stage, tab):
    model = await stage.site.script({"replies": [{"text": "An apple."}]})
    task = {"goal": "Name a fruit.", "models": {"executor": model}}
    await tab.start("AgentLoop", stage.site.settings.task_queue, "fruit-1", json.dumps(task))
    result = await stage.site.gateway.result("fruit-1")
    assert (result.outcome, result.output) == ("accepted", "An apple.")
    panel = await tab.panel("fruit-1")
    assert "An apple." in await panel.inner_text()


@dataclass(frozen=True)
class Untouched:
    """A server that only the worker of this installation has ever spoken to, and a tab on it."""

    site: Installation
    tab: WebUI


@pytest.fixture
async def untouched(tmp_path: Path) -> AsyncIterator[Untouched]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    async with dev_server(ui_port=port, prepared=False) as server:
        address = server.client.service_client.config.target_host
        async with (
            installation(tmp_path / "home", address) as site,
            site.worker(),
            web_ui(f"http://127.0.0.1:{port}") as tab,
        ):
            yield Untouched(site, tab)


async def test_on_a_server_where_no_command_ran_before_the_worker(untouched: Untouched) -> None:
    site, tab = untouched.site, untouched.tab
    model = await site.script({"replies": [{"text": "An apple."}]})
    task = {"goal": "Name a fruit.", "models": {"executor": model}}
    await tab.start("AgentLoop", site.settings.task_queue, "fruit-1", json.dumps(task))
    result = await site.gateway.result("fruit-1")
    assert (result.outcome, result.output) == ("accepted", "An apple.")
    assert "An apple." in await (await tab.panel("fruit-1")).inner_text()
    row = await site.parts.stores.records.run("fruit-1")
    assert row is not None
    assert row.outcome == "accepted"

    async def listed() -> bool:
        return [one.id for one in (await site.gateway.list()).runs] == ["fruit-1"]

    await eventually(listed)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"gaol": "Name a fruit."}, "gaol"),
        ({"goal": "Name a fruit.", "budget": {"tokens": "many"}}, "budget.tokens"),
        ("Name a fruit.", "goal"),
    ],
    ids=["a field that is none", "a value that is none", "no task at all"],
)
async def test_a_wrong_task_fails_at_once_in_words(
    untouched: Untouched, task: object, words: str
) -> None:
    site, tab = untouched.site, untouched.tab
    await tab.start("AgentLoop", site.settings.task_queue, "wrong-1", json.dumps(task))
    with pytest.raises(WorkflowFailureError) as caught:
        await site.handle("wrong-1").result()
    assert words in str(caught.value.cause)
    await tab.run("wrong-1")
    await expect(tab.page.locator("body")).to_contain_text(words)
