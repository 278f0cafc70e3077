"""The page for everybody: by keyboard, at a phone's width, light and dark, with a screen reader."""

import pytest
from axe_playwright_python.async_playwright import Axe
from kept_experiments import ID
from page_visit import signed_in
from playwright.async_api import Page, expect

PHONE = {"width": 360, "height": 740}
GRAVE = frozenset({"serious", "critical"})


def views(stage) -> dict[str, str]:
    """Every view with something in it, by its name."""
    runs = stage.scenes
    return {
        "inbox": "/inbox",
        "runs": "/runs",
        "no runs": "/runs?label=nowhere",
        "accepted run": f"/runs/{runs.accepted}",
        "failed run": f"/runs/{runs.failed}",
        "waiting run": f"/runs/{runs.approval}",
        "running run": f"/runs/{runs.running}",
        "fork": f"/runs/{runs.accepted}/iterations/1/fork",
        "tree": f"/runs/{runs.accepted}/tree",
        "compare": f"/compare?left={runs.accepted}&right={runs.escalation}",
        "costs": "/costs?by=model",
        "library": "/library",
        "experiments": "/experiments",
        "experiment": f"/experiments/{ID}",
        "start": "/new",
        "start of a ready-made task": "/new?task=job-matching",
        "nowhere": "/nowhere",
    }


async def look(page: Page, address: str, name: str) -> None:
    """Open a view, which is there unless its name says otherwise."""
    answer = await page.goto(address)
    assert answer is not None
    assert answer.status == (404 if name == "nowhere" else 200), name


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_grave_finding_of_axe(stage, rest, browser, scheme):
    page = await signed_in(await browser.new_page(color_scheme=scheme), rest)
    found: dict[str, list[str]] = {}
    for name, path in {"sign-in": "/sign-in", **views(stage)}.items():
        await look(page, rest.url + path, name)
        for one in await page.locator("details > summary").all():
            if await one.is_visible():
                await one.click()
        said = await Axe().run(page)
        grave = [
            f"{each['id']}: {each['nodes'][0]['target']} {each['nodes'][0]['failureSummary']}"
            for each in said.response["violations"]
            if each["impact"] in GRAVE
        ]
        if grave:
            found[name] = grave
    assert found == {}


async def test_nothing_is_cut_off_on_a_phone(stage, rest, browser):
    page = await signed_in(await browser.new_page(viewport=PHONE), rest)
    wide: dict[str, int] = {}
    for name, path in views(stage).items():
        await look(page, rest.url + path, name)
        width = await page.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            wide[name] = width
    assert wide == {}


async def _focus(page: Page, name: str, *, role: str) -> None:
    """Go on with the tab key until something is reached."""
    wanted = page.get_by_role(role, name=name).first  # type: ignore[arg-type]
    for _ in range(150):
        await page.keyboard.press("Tab")
        if await wanted.evaluate("one => one === document.activeElement"):
            return
    raise AssertionError(f"the tab key never reaches {role} {name!r}")


async def test_from_the_list_to_an_approval_by_keyboard(stage, rest, page):
    await page.goto(f"{rest.url}/runs")
    await _focus(page, "Inbox", role="link")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/inbox")
    card = page.locator(".card", has_text="notes.md").first
    await expect(card).to_be_visible()
    approve = card.get_by_role("button", name="Approve")
    for _ in range(150):
        await page.keyboard.press("Tab")
        if await approve.evaluate("one => one === document.activeElement"):
            break
    outlined = await approve.evaluate("one => getComputedStyle(one).outlineStyle")
    assert outlined != "none", "who goes by keyboard sees where they are"
    await page.keyboard.press("Enter")
    result = await stage.site.gateway.result(stage.scenes.approval)
    assert result.outcome == "accepted"
