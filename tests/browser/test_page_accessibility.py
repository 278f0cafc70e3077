"""The page for everybody: by keyboard, at a phone's width, light and dark, with a screen reader."""

from collections.abc import AsyncIterator

import pytest
from axe_playwright_python.async_playwright import Axe
from kept_experiments import ID
from page_visit import signed_in
from playwright.async_api import Page, expect
from proposals import TOOL, propose
from waiting import eventually

PHONE = {"width": 360, "height": 740}
WIDE = {"width": 1100, "height": 740}
LONG = "\n".join(f"{number}. What should the text say of the bottle?" for number in range(40))
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
        "definition": "/library/definition/harness",
        "learning": "/library/learning/learning-1",
        "tool": f"/library/tool/{TOOL}",
        "erase": f"/runs/{runs.accepted}/erase",
        "iteration": f"/runs/{runs.accepted}/iterations/2",
        "model calls": f"/runs/{runs.accepted}/iterations/1/calls",
        "schedules": "/schedules",
        "new schedule": "/schedules/new",
        "schedule": "/schedules/news",
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


@pytest.fixture(scope="module", autouse=True)
async def filled(stage) -> AsyncIterator[None]:
    """A long question, and something on every shelf."""
    await propose(stage.site.parts.stores)
    asking = {"name": "human.ask", "arguments": {"question": LONG}}
    spec = {"kind": "agent", "goal": "Ask at length", "recall": False, "learn": False}
    run = await stage.site.start(spec, {"replies": [{"tool_calls": [asking]}, {"text": "done"}]})

    async def asked() -> bool:
        return (await stage.site.status(run)).lifecycle == "waiting"

    await eventually(asked)
    yield
    await stage.site.handle(run).signal("stop", {"mode": "now"})
    await stage.site.gateway.result(run)


async def _scheduled(rest) -> None:
    body = {
        "name": "news",
        "task": {"kind": "agent", "goal": LONG},
        "times": {"cron": ["0 9 * * *"]},
    }
    made = await rest.client.post("/api/v1/schedules", json=body)
    assert made.status_code in {200, 201, 409}, made.text


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", WIDE), ("light", PHONE)])
async def test_no_grave_finding_of_axe(stage, rest, browser, scheme, size):
    page = await signed_in(await browser.new_page(color_scheme=scheme, viewport=size), rest)
    await _scheduled(rest)
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
    await _scheduled(rest)
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
