"""The page as a screen reader has it: names, words for what is coloured, and what is announced."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from page_visit import signed_in
from playwright.async_api import Browser, Page, expect
from rest import APPROVED, ASKING, Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

SOON_MS = 60_000
LEAST_PX = 24


@pytest.fixture
async def rest(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Rest]:
    address = server.client.service_client.config.target_host
    async with scripted(tmp_path, address, ASKING) as site, site.worker(), served(site) as found:
        yield found


async def _asked(rest: Rest) -> str:
    """A run that waits for a person."""
    run = await rest.start(APPROVED)
    while (await rest.client.get(f"/api/v1/loops/{run}")).json()["lifecycle"] != "waiting":
        await asyncio.sleep(0.1)
    return run


async def _answered(rest: Rest, run: str) -> None:
    gate = (await rest.client.get(f"/api/v1/loops/{run}")).json()["gates"][0]
    said = {"choice": "deny", "args_hash": gate["args_hash"]}
    async with rest.caller("admin") as other:
        sent = await other.post(f"/api/v1/loops/{run}/gates/{gate['name']}/answer", json=said)
    assert sent.status_code == 200, sent.text


@pytest.fixture
async def inbox(rest: Rest, browser: Browser) -> Page:
    """Two questions of the same kind, from tasks of the same words."""
    await _asked(rest)
    await _asked(rest)
    page = await signed_in(await browser.new_page(), rest)
    await page.goto(f"{rest.url}/inbox")
    await expect(page.locator("article.gate").nth(1)).to_be_visible()
    return page


def _names(tree: str, role: str) -> list[str]:
    # Names with a colon are quoted once more.
    return re.findall(rf'''- '?{role} "([^"]+)"''', tree)


async def test_each_control_says_what_it_is_about(inbox: Page) -> None:
    tree = await inbox.locator("#content").aria_snapshot()
    named = _names(tree, "button") + _names(tree, "checkbox")
    assert len(named) == len(set(named)) >= 8, named
    approve = [name for name in named if name.startswith("Approve: ")]
    assert len(approve) == 2
    assert all(
        re.fullmatch(r"Approve: fs\.write, g1-\w{4}, look around, \S+", one) for one in approve
    )
    assert _names(tree, "article") == ["Tool approval: fs.write look around"] * 2
    assert _names(tree, r"heading") == ["Inbox", *["Tool approval: fs.write"] * 2]


async def test_a_change_is_told_in_words(inbox: Page) -> None:
    tree = await inbox.locator("article.gate").first.aria_snapshot()
    assert _names(tree, "group") == ["Change of the file"]
    assert "added: +x" in tree


async def test_targets_are_large_enough(inbox: Page) -> None:
    await inbox.set_viewport_size({"width": 360, "height": 740})
    for path in ("/inbox", "/runs"):
        await inbox.goto(inbox.url.replace("/inbox", path))
        targets = inbox.locator("main button, main input")
        assert await targets.count() >= 4
        for one in await targets.all():
            box = await one.bounding_box()
            if box is not None:
                assert min(box["width"], box["height"]) >= LEAST_PX, await one.evaluate(
                    "one => one.outerHTML"
                )


@pytest.mark.parametrize("where", ["inbox", "run"])
async def test_after_an_answer_the_focus_is_at_what_became_of_it(
    rest: Rest, inbox: Page, where: str
) -> None:
    card = inbox.locator("article.gate").first
    if where == "run":
        await card.get_by_role("link", name="look around").click()
        await inbox.wait_for_url("**/runs/*")
    await card.get_by_role("button", name="Approve").press("Enter")
    told = inbox.locator(".told:focus")
    await expect(told).to_contain_text(
        "look around: approve, by test" if where == "inbox" else "Your answer to g1-"
    )
    if where == "inbox":
        # The cards renew themselves meanwhile; the focus stays.
        await _asked(rest)
        await expect(inbox.locator("article.gate")).to_have_count(2, timeout=SOON_MS)
        await expect(told).to_be_visible()


LOOKS_ELSEWHERE = """
Object.defineProperty(document, "hidden", { get: () => true });
window.shown = [];
window.Notification = class {
  static permission = "granted";
  constructor(title, { body, tag }) { window.shown.push({ title, body, tag }); }
};
"""


async def test_who_looks_elsewhere_is_notified_of_a_new_question(rest: Rest, inbox: Page) -> None:
    await inbox.add_init_script(LOOKS_ELSEWHERE)
    await inbox.reload()
    await expect(inbox.locator("#open-gates .count")).to_have_text("2 open", timeout=SOON_MS)
    assert await inbox.evaluate("window.shown") == [], "these were open before"
    new = await _asked(rest)
    await expect(inbox).to_have_title("(3) Inbox · Perdure", timeout=SOON_MS)
    (shown,) = await inbox.evaluate("window.shown")
    await _answered(rest, new)
    await expect(inbox).to_have_title("(2) Inbox · Perdure", timeout=SOON_MS)
    assert len(await inbox.evaluate("window.shown")) == 1, "an older one is no new one"
    assert (shown["title"], shown["body"]) == ("Perdure asks", "Tool approval: look around")


async def test_what_comes_by_itself_is_announced(rest: Rest, inbox: Page) -> None:
    said = inbox.get_by_role("status").and_(inbox.locator("#news"))
    await expect(inbox.locator("#open-gates .count")).to_be_attached(timeout=SOON_MS)
    await _asked(rest)
    await expect(said).to_have_text("A new question. Tool approval: look around", timeout=SOON_MS)
    await inbox.locator("article.gate").first.get_by_role("link", name="look around").click()
    await inbox.wait_for_url("**/runs/*")
    run = inbox.url.rsplit("/", 1)[1]
    stop = await rest.client.post(f"/api/v1/loops/{run}/stop", json={"mode": "now"})
    assert stop.status_code == 200, stop.text
    await expect(said).to_contain_text("This run has ended: stopped", timeout=SOON_MS)
