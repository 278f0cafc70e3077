"""Everything but liveness without JavaScript, and a button only where what it offers works."""

import pytest
from page_visit import signed_in
from playwright.async_api import Browser, expect
from waiting import eventually

from perdure.interfaces.web import visit
from perdure.interfaces.web.runs import routes


async def test_a_walk_without_scripts(stage, rest, browser: Browser, monkeypatch):
    for module in (visit, routes):
        monkeypatch.setattr(module, "BESIDE_S", 60.0)  # however slow this machine is
    context = await browser.new_context(java_script_enabled=False)
    page = await signed_in(await context.new_page(), rest)
    runs = stage.scenes
    cell = page.locator(f"#glance-{runs.accepted}")
    await expect(cell.get_by_role("img")).to_have_accessible_name("Scores by iteration: 0.65, 0.97")
    await expect(cell).to_contain_text("of $2.00")
    await expect(page.locator(f"#glance-{runs.running}")).to_contain_text("of $2.00")
    await expect(page.locator("#open-gates .count")).to_have_text("2 open")
    await page.get_by_role("link", name="Inbox").click()
    await expect(page.locator("article.gate")).to_have_count(2)
    await expect(page.get_by_role("button", name="Notify me")).to_be_hidden()
    card = page.locator("article", has_text="notes.md")
    await card.get_by_role("button", name="Deny").click()
    await expect(page.locator(".told")).to_contain_text("deny, by test")

    async def counted() -> bool:
        await page.goto(f"{rest.url}/costs")
        return await page.locator("#open-gates .count").get_attribute("data-open") == "1"

    await eventually(counted)
    await page.goto(f"{rest.url}/runs/{runs.accepted}")
    await page.locator("#iteration-2 > summary").click()
    await page.get_by_role("link", name="Open iteration 2").click()
    await expect(page.get_by_text("could name a colour").first).to_be_visible()


NOTIFIES = """
window.Notification = class {{
  static permission = "default";
  constructor() {{ {body} }}
  close() {{}}
}};
"""


@pytest.mark.parametrize(
    ("body", "offered"),
    [("", True), ('throw new TypeError("Illegal constructor");', False)],
    ids=["a desk", "a phone"],
)
async def test_notifications_are_offered_where_they_work(rest, browser: Browser, body, offered):
    page = await signed_in(await browser.new_page(), rest)
    await page.add_init_script(NOTIFIES.format(body=body))
    await page.goto(f"{rest.url}/inbox")
    await expect(page.locator("#open-gates [data-open]")).to_be_attached()
    await expect(page.locator("#notify")).to_be_visible(visible=offered)
