"""The page for everybody: by keyboard, at a phone's width, light and dark, with a screen reader."""

from collections.abc import AsyncIterator

import pytest
from axe_playwright_python.async_playwright import Axe
from page_views import (
    answers,
    opened,
    sent,
    templates_of_pages,
    templates_used,
    unvisited,
    views,
)
from page_visit import signed_in
from playwright.async_api import Page, expect
from proposals import propose
from waiting import eventually

from perdure.domain.foundation.errors import StoreAway

PHONE = {"width": 360, "height": 740}
NARROWEST = {"width": 320, "height": 640}
WIDE = {"width": 1100, "height": 740}
LONG = "\n".join(f"{number}. What should the text say of the bottle?" for number in range(40))
GRAVE = frozenset({"moderate", "serious", "critical"})
# Beyond axe: a table says what it shows and what each column or row is.
TABLES = """() => [...document.querySelectorAll('table:not(.prose table)')].flatMap(one => {
  const named = one.caption || one.ariaLabel || one.getAttribute('aria-labelledby');
  const heads = [...one.querySelectorAll('th')];
  return [
    ...(named ? [] : [`no caption: ${one.outerHTML.slice(0, 120)}`]),
    ...(heads.length ? [] : [`no header: ${one.outerHTML.slice(0, 120)}`]),
    ...heads.filter(th => !th.scope).map(th => `no scope: ${th.outerHTML.slice(0, 120)}`),
  ];
})"""
# A field of a date is several stops of the tab key: day, month, year, calendar.
STOPS_INSIDE = 20
# What the keyboard must reach, in the order of the document; kept in the page, whose parts change.
REACHABLE = """() => {
  const all = [...document.querySelectorAll(
    'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]')];
  window.reachable = all.filter(one => !one.disabled && one.checkVisibility());
  reachable[0].focus();
  return reachable.map(one => one.outerHTML.slice(0, 120));
}"""
FOCUSED = """() => {
  const one = document.activeElement, style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  return {
    left: one === document.body,
    at: reachable.indexOf(one),
    outlined: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0,
    inside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}"""
THERE = "() => reachable.flatMap((one, at) => one.isConnected && one.checkVisibility() ? [at] : [])"


@pytest.fixture(scope="module", autouse=True)
async def calling(stage) -> AsyncIterator[str]:
    """A run that called a tool; beside it a long question, and something on every shelf."""
    await propose(stage.site.parts.stores)
    listing = {"name": "fs.list", "arguments": {"path": "."}}
    looking = {"kind": "agent", "goal": "Look around", "recall": False, "learn": False}
    called = await stage.site.start(
        looking, {"replies": [{"tool_calls": [listing]}, {"text": "Nothing is there."}]}
    )
    await stage.site.gateway.result(called)
    asking = {"name": "human.ask", "arguments": {"question": LONG}}
    spec = {"kind": "agent", "goal": "Ask at length", "recall": False, "learn": False}
    run = await stage.site.start(spec, {"replies": [{"tool_calls": [asking]}, {"text": "done"}]})

    async def asked() -> bool:
        return (await stage.site.status(run)).lifecycle == "waiting"

    await eventually(asked)
    yield called
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


async def _every_view(stage, rest, page: Page, calling: str) -> AsyncIterator[str]:
    """Open one view after the other, with all that can be unfolded unfolded."""
    await _scheduled(rest)
    for name, path in views(stage.scenes, calling=calling).items():
        await opened(page, rest.url, name, path)
        await _unfold(page)
        yield name
    for name, (path, fields) in answers(stage.scenes).items():
        await page.goto(f"{rest.url}/library")
        await sent(page, path, fields)
        yield name


async def _unfold(page: Page) -> None:
    for one in await page.locator("details > summary").all():
        if await one.is_visible():
            await one.click()


def _nobody(*_given: object) -> None:
    raise StoreAway("The database cannot be reached.", cure="Start its server.")


async def _findings(page: Page) -> list[str]:
    said = await Axe().run(page)
    return [
        f"{each['id']}: {each['nodes'][0]['target']} {each['nodes'][0]['failureSummary']}"
        for each in said.response["violations"]
        if each["impact"] in GRAVE
    ]


@pytest.mark.parametrize(("scheme", "size"), [("light", WIDE), ("dark", WIDE), ("light", PHONE)])
async def test_no_grave_finding_of_axe(stage, rest, browser, calling, monkeypatch, scheme, size):
    context = await browser.new_context(color_scheme=scheme, viewport=size)
    page = await signed_in(await context.new_page(), rest)
    found: dict[str, list[str]] = {}
    with templates_used() as used:
        async for name in _every_view(stage, rest, page, calling):
            if grave := [*await _findings(page), *await page.evaluate(TABLES)]:
                found[name] = grave
        with monkeypatch.context() as patch:
            patch.setattr(stage.site.parts.stores.database, "read", _nobody)
            await page.goto(f"{rest.url}/runs")
            if grave := await _findings(page):
                found["store away"] = grave
        await page.goto(f"{rest.url}/library")
        await context.clear_cookies()
        await sent(page, "/new", {"goal": "too late"})
        if grave := await _findings(page):
            found["signed out"] = grave
    assert found == {}
    assert templates_of_pages() - used == set(), (
        "a page that no view of tests/support/page_views.py shows"
    )


def test_every_address_of_the_page_is_looked_at(stage, calling):
    """A new view is added to tests/support/page_views.py, or to what it calls no page."""
    assert unvisited(views(stage.scenes, calling=calling).values()) == set()


async def test_nothing_is_cut_off_on_the_narrowest_phone(stage, rest, browser, calling):
    page = await signed_in(await browser.new_page(viewport=NARROWEST), rest)
    wide: dict[str, int] = {}
    async for name in _every_view(stage, rest, page, calling):
        width = await page.evaluate("document.documentElement.scrollWidth")
        if width > NARROWEST["width"]:
            wide[name] = width
    assert wide == {}


async def test_the_tab_key_goes_through_every_view_in_order(stage, rest, browser, calling):
    # Without smooth scrolling, which would still be on its way when the place is read.
    tab = await browser.new_page(viewport=WIDE, reduced_motion="reduce")
    page = await signed_in(tab, rest)
    await page.route("**/inbox?seen*", lambda route: route.abort())  # nothing moves meanwhile
    found: dict[str, list[str]] = {}
    async for name in _every_view(stage, rest, page, calling):
        if wrong := await _walked(page):
            found[name] = wrong
    assert found == {}


async def _walked(page: Page) -> list[str]:
    """What is wrong with a walk by the tab key from the first to the last control of a view."""
    words: list[str] = await page.evaluate(REACHABLE)
    reached: list[int] = [0]
    wrong: list[str] = []
    for _ in range(2 * len(words) + STOPS_INSIDE):
        await page.keyboard.press("Tab")
        now = await page.evaluate(FOCUSED)
        at: int = now["at"]
        if now["left"] or at == 0:
            break  # once around
        if at < 0 or at == reached[-1]:
            continue  # what came meanwhile, or a further stop inside of a field
        reached.append(at)
        if not now["outlined"]:
            wrong.append(f"focus not visible: {words[at]}")
        if not now["inside"]:
            wrong.append(f"out of sight: {words[at]}")
    wrong += [
        f"never reached: {words[at]}" for at in await page.evaluate(THERE) if at not in reached
    ]
    return wrong + ([] if reached == sorted(reached) else [f"out of order: {reached}"])


async def test_on_a_phone_steering_comes_with_the_first_tick_and_stays(rest, browser):
    page = await signed_in(await browser.new_page(viewport=PHONE, reduced_motion="reduce"), rest)
    pause = page.get_by_role("button", name="Pause selected")
    await expect(pause).to_be_hidden()
    last = page.get_by_role("checkbox").last
    await last.check()
    await last.scroll_into_view_if_needed()
    await expect(pause).to_be_in_viewport()


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


@pytest.mark.parametrize("width", [710, 800, 1000])
async def test_the_list_of_runs_scrolls_by_itself_at_twice_the_size(rest, browser, width):
    page = await signed_in(await browser.new_page(viewport={"width": width, "height": 700}), rest)
    assert await page.evaluate("document.documentElement.scrollWidth") <= width


async def test_borders_tell_what_colours_would(stage, rest, browser):
    context = await browser.new_context(forced_colors="active", viewport=WIDE)
    page = await signed_in(await context.new_page(), rest)
    drawn = "one => getComputedStyle(one).borderTopStyle"
    assert await page.locator(".state").first.evaluate(drawn) == "solid"
    outlined = "one => getComputedStyle(one).outlineStyle"
    assert await page.locator(".top nav a[aria-current]").evaluate(outlined) == "solid"
    assert await page.get_by_role("link", name="Library").evaluate(outlined) == "none"
