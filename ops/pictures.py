"""Take the pictures of docs/pictures anew: real runs, the page, the real Web UI, a real browser.

PYTHONPATH=tests/support python -P ops/pictures.py [FOLDER]
"""

import asyncio
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from delegating import completes, delegates, delegation, script, works
from installation import Installation, dev_server, installation
from kept_experiments import ended_experiment
from page_visit import signed_in
from playwright.async_api import Page, ViewportSize, async_playwright, expect
from rest import Rest, served
from scenes import Scenes, end, play
from web_ui import ARGUMENTS, WebUI, find_browser, web_ui

FOLDER = Path("docs/pictures")
SIZE = {"width": 1560, "height": 1240}
PAGE: ViewportSize = {"width": 1100, "height": 1300}
PHONE: ViewportSize = {"width": 390, "height": 844}
SIDEBAR = 256
TOP = 48
SETTLE_MS = 1_500
COLUMNS = {
    "Status": True,
    "Workflow ID": True,
    "PerdureLifecycle": False,
    "PerdureBlockedOn": False,
    "PerdureScore": False,
    "PerdureCostUsd": False,
    "PerdureOutcome": False,
}


async def take(ui: WebUI, scenes: Scenes, folder: Path) -> None:
    """All pictures."""
    await ui.columns(COLUMNS)
    await ui.list('PerdureCostUsd >= 0 and StartTime > "2020-01-01T00:00:00Z"')
    await expect(ui.rows).to_have_count(len(scenes.all))
    await shoot(ui, folder / "list.png", height=455)
    await ui.run(scenes.running)
    await shoot(ui, folder / "timeline.png", top=676, height=320)
    await ui.panel(scenes.running)
    await shoot(ui, folder / "running.png", height=600)
    await ui.panel(scenes.approval)
    await shoot(ui, folder / "gate.png", height=1120)
    await ui.panel(scenes.failed)
    await shoot(ui, folder / "failed.png", height=580)


async def take_page(
    page: Page, rest: Rest, scenes: Scenes, more: Mapping[str, str], folder: Path
) -> None:
    """Each view of the page; `more` are views of what is made for them alone."""
    views = {
        "inbox": "/inbox",
        "runs": "/runs",
        "run": f"/runs/{scenes.accepted}",
        "compare": f"/compare?left={scenes.accepted}:1&right={scenes.accepted}:2",
        "costs": "/costs?by=model",
        "library": "/library",
        **more,
        "start": "/new",
    }
    for name, path in views.items():
        await page.goto(rest.url + path)
        if name == "run":
            await page.locator("#iteration-2 summary").first.click()
        await page.wait_for_timeout(SETTLE_MS)
        await _save(page, folder / f"page-{name}.png")
    await page.set_viewport_size(PHONE)
    await page.emulate_media(color_scheme="dark")
    await page.goto(f"{rest.url}/inbox")
    await page.wait_for_timeout(SETTLE_MS)
    await _save(page, folder / "page-phone.png")


async def _save(page: Page, target: Path) -> None:
    """What fits into the window of one look, or less where the view is shorter."""
    size = page.viewport_size or PAGE
    height = min(size["height"], await page.evaluate("document.body.scrollHeight"))
    clip = {"x": 0, "y": 0, "width": size["width"], "height": height}
    await page.screenshot(path=target, clip=clip, full_page=True)  # pyright: ignore[reportArgumentType]
    sys.stdout.write(f"{target}: {target.stat().st_size // 1024} KB\n")


async def worked_on_by_many(site: Installation) -> str:
    """A delegation with four workers, of which one gave up."""
    task = delegation(goal="Compare three steel bottles for hikers", budget={"cost_usd": "0.50"})
    names = ("prices", "materials", "reviews", "weights")
    said = (
        "From 18 to 42 EUR; the cheapest holds half a litre.",
        "Two of 18/8 steel, one with a plastic lid that cracks in frost.",
        "4,120 reviews read; leaks are the most frequent complaint.",
        "280 g, 310 g and 365 g, each without its lid.",
    )
    replies = [
        works(name, text, 0.9 - 0.1 * at)
        for at, (name, text) in enumerate(zip(names, said, strict=True))
    ]
    run = await site.start(
        task, script(delegates(*names), *replies, completes("The second is best on long walks."))
    )
    await site.gateway.result(run)
    return run


async def shoot(ui: WebUI, target: Path, *, top: int = TOP, height: int) -> None:
    """One picture, without the navigation around the page."""
    await ui.page.wait_for_timeout(SETTLE_MS)  # fonts, icons and fades have no event to wait for
    clip = {"x": SIDEBAR, "y": top, "width": SIZE["width"] - SIDEBAR, "height": height}
    await ui.page.screenshot(path=target, clip=clip, full_page=True)  # pyright: ignore[reportArgumentType]
    sys.stdout.write(f"{target}: {target.stat().st_size // 1024} KB\n")


async def main() -> int:
    if find_browser() is None:
        sys.stderr.write("no chromium on PATH: install one with `make browser-setup`\n")
        return 1
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    with tempfile.TemporaryDirectory(prefix="perdure-pictures-") as scratch:
        async with dev_server(ui_port=port) as server:
            address = server.client.service_client.config.target_host
            async with installation(Path(scratch), address) as site, site.worker():
                scenes = await play(site)
                async with web_ui(f"http://127.0.0.1:{port}", **SIZE) as ui:
                    await take(ui, scenes, folder)
                async with served(site) as rest, async_playwright() as started:
                    browser = await started.chromium.launch(
                        executable_path=find_browser(), args=list(ARGUMENTS)
                    )
                    tab = await browser.new_page(viewport=PAGE)
                    more = {
                        "tree": f"/runs/{await worked_on_by_many(site)}/tree",
                        "experiment": f"/experiments/{await ended_experiment(site)}",
                    }
                    await take_page(await signed_in(tab, rest), rest, scenes, more, folder)
                    await browser.close()
                await end(site, scenes)
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
