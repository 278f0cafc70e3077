"""Fixtures of the browser tests: one installation with a run in each state, and a tab."""

import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from installation import Installation, dev_server, installation
from kept_experiments import ended_experiment
from page_visit import signed_in
from playwright.async_api import Browser, Page, async_playwright
from rest import Rest, served
from scenes import Scenes, end, play
from web_ui import ARGUMENTS, WebUI, find_browser, web_ui


def pytest_itemcollected(item: pytest.Item) -> None:
    """Without a browser nothing here can be proved.

    Marked as soon as a test is found, since its mark decides on its time limit.
    """
    item.add_marker(pytest.mark.browser)
    if find_browser() is None:
        why = "no chromium on PATH: install one with `make browser-setup`"
        item.add_marker(pytest.mark.skip(reason=why))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An installation, its runs, and where its Web UI is."""

    site: Installation
    scenes: Scenes
    url: str


@pytest.fixture(scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Made anew for each module: steering changes the runs."""
    port = _free_port()
    async with dev_server(ui_port=port) as server:
        address = server.client.service_client.config.target_host
        home = tmp_path_factory.mktemp("browser") / "home"
        async with installation(home, address) as site, site.worker():
            scenes = await play(site)
            await ended_experiment(site)
            yield Stage(site=site, scenes=scenes, url=f"http://127.0.0.1:{port}")
            await end(site, scenes)


@pytest.fixture
async def tab(stage: Stage) -> AsyncIterator[WebUI]:
    async with web_ui(stage.url) as opened:
        yield opened


@pytest.fixture
async def rest(stage: Stage) -> AsyncIterator[Rest]:
    """The API and the page over the installation of the stage."""
    async with served(stage.site) as found:
        yield found


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as started:
        found = await started.chromium.launch(executable_path=find_browser(), args=list(ARGUMENTS))
        yield found
        await found.close()


@pytest.fixture
async def page(browser: Browser, rest: Rest) -> Page:
    """A tab of somebody who signed in to the page and may do everything."""
    return await signed_in(await browser.new_page(), rest)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
