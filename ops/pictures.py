"""Take the pictures of docs/pictures anew: real runs, the real Web UI, a real browser.

PYTHONPATH=tests/support python -P ops/pictures.py [FOLDER]
"""

import asyncio
import socket
import sys
import tempfile
from pathlib import Path

from installation import dev_server, installation
from playwright.async_api import expect
from scenes import Scenes, end, play
from web_ui import WebUI, find_browser, web_ui

FOLDER = Path("docs/pictures")
SIZE = {"width": 1560, "height": 1240}
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
                await end(site, scenes)
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
