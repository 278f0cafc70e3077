"""What somebody typed is never lost, is sent once, and no tap hits what it was not meant for."""

import pytest
from page_visit import answered_by_mouse
from playwright.async_api import Locator, Page, expect
from waiting import eventually

SOON_MS = 20_000
NOTE = "say more about the soap,\nand keep it <b>short</b>"
WRITTEN = {"path": "soap.md", "content": "# Soap\n", "expected_hash": "absent"}
WRITER = {
    "kind": "agent",
    "goal": "Write about soap",
    "recall": False,
    "learn": False,
    "tools": {"access": "full", "allow": ["fs.write"], "approve": ["fs.write"]},
}


REVIEWED = {
    "kind": "refine",
    "goal": "Name a tree",
    "rubric": [
        {"name": name, "description": f"its {name}", "evaluator": {"human": {}}}
        for name in ("tone", "facts")
    ],
    "recall": False,
    "learn": False,
    "refine": {"plan": "off", "max_iterations": 1},
}


def _asks(page: Page, run: str) -> Locator:
    return page.locator(f"article[id^='gate-{run}']")


@pytest.fixture
async def asking(stage) -> str:
    """A run of this test alone that asks whether it may write a file."""
    call = {"name": "fs.write", "arguments": WRITTEN}
    run = await stage.site.start(WRITER, {"replies": [{"tool_calls": [call]}, {"text": "done"}]})

    async def waits() -> bool:
        return (await stage.site.status(run)).lifecycle == "waiting"

    await eventually(waits)
    return run


async def _enter(page: Page, url: str, token: str) -> None:
    await page.fill("#token", token)
    await page.press("#token", "Enter")
    await page.wait_for_url(f"{url}/**")


CLICKED = """([selector, detail]) => {
  const event = new MouseEvent("click", { detail, bubbles: true, cancelable: true });
  let reached = false;
  const note = (one) => { reached = true; one.preventDefault(); };
  const button = document.querySelector(selector);
  button.addEventListener("click", note);
  button.dispatchEvent(event);
  button.removeEventListener("click", note);
  return reached;
}"""
MOVED = """() => {
  const tell = (name) => document.dispatchEvent(new CustomEvent(name));
  tell("htmx:before:swap");
  const more = "<p>one line more</p>".repeat(9);
  document.querySelector("#cards").insertAdjacentHTML("afterbegin", more);
  tell("htmx:after:swap");
}"""
BUTTON = "article.card .answer button"


async def test_a_tap_right_after_the_questions_moved_sends_nothing(rest, page, asking):
    await page.clock.install()
    await page.goto(f"{rest.url}/inbox?had=some+g1")
    await page.clock.pause_at("2100-01-01")
    assert await page.evaluate(CLICKED, [BUTTON, 1]), "they stood there long enough"
    await page.evaluate(MOVED)
    assert not await page.evaluate(CLICKED, [BUTTON, 1])
    await expect(page.locator("#news")).to_contain_text("have just moved")
    assert await page.evaluate(CLICKED, [BUTTON, 0]), "the keyboard means what has the focus"
    await page.clock.run_for(1_000)
    assert await page.evaluate(CLICKED, [BUTTON, 1])


async def test_words_outlive_the_session(rest, browser, asking):
    token = await rest.token("admin")
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(f"{rest.url}/inbox")
    await _enter(page, rest.url, token)
    await _asks(page, asking).locator("textarea").fill(NOTE)
    await context.clear_cookies()
    await page.wait_for_url("**/sign-in?*", timeout=SOON_MS)  # the inbox asked again by itself
    await _enter(page, rest.url, token)
    await expect(_asks(page, asking).locator("textarea")).to_have_value(NOTE)

    # Sent before the page knew: the words are shown, and stand in their form after the sign-in.
    await page.route("**/inbox?*", lambda route: route.abort())
    await page.route("**/inbox/count", lambda route: route.abort())
    await context.clear_cookies()
    await _asks(page, asking).get_by_role("button", name="Deny:").click()
    await expect(page.get_by_role("heading", name="You are signed out.")).to_be_visible()
    await expect(page.locator("main")).to_contain_text("<b>short</b>")
    await page.unroute_all()
    await page.goto(f"{rest.url}/inbox")
    await _enter(page, rest.url, token)
    await expect(_asks(page, asking).locator("textarea")).to_have_value(NOTE)

    # Another person in the same tab sees none of them.
    await page.get_by_role("button", name="Sign out").click()
    await _enter(page, rest.url, await rest.token("admin"))
    await page.goto(f"{rest.url}/inbox")
    await expect(_asks(page, asking).locator("textarea")).to_have_value("")
    assert "soap" not in await page.evaluate("JSON.stringify({...sessionStorage})")


async def test_words_for_a_question_that_went_are_shown(rest, page, asking):
    await page.goto(f"{rest.url}/inbox")
    await _asks(page, asking).locator("textarea").fill(NOTE)
    gates = (await rest.client.get("/api/v1/gates", params={"limit": 100})).json()["items"]
    gate = next(one["gate"]["name"] for one in gates if one["run"] == asking)
    said = {"choice": "deny", "text": "another person was first"}
    answer = await rest.client.post(f"/api/v1/loops/{asking}/gates/{gate}/answer", json=said)
    assert answer.status_code == 200, answer.text
    kept = page.locator("#kept")
    await expect(kept).to_contain_text("<b>short</b>", timeout=SOON_MS)
    await expect(kept).to_contain_text("Tool approval: Write about soap")
    await page.reload()
    await expect(kept).to_contain_text("<b>short</b>")
    await kept.get_by_role("button").click()
    await expect(kept).to_be_hidden()
    await page.reload()
    await expect(kept).to_be_hidden()


async def test_words_to_a_run_that_ended_are_shown_and_a_double_tap_says_them_once(
    stage, rest, page
):
    run = stage.scenes.paused
    await page.goto(f"{rest.url}/runs/{run}")
    saying = page.get_by_label("Say something to it")
    await saying.fill("only once")
    await page.get_by_role("button", name="Send", exact=True).dblclick()
    await expect(saying).to_have_value("")
    found = (await rest.client.get(f"/api/v1/loops/{run}")).json()
    assert [one["type"] for one in found["events"]].count("input_added") == 1
    await expect(page.locator("#kept")).to_be_hidden()  # it was taken

    await saying.fill(NOTE)
    await rest.client.post(f"/api/v1/loops/{run}/stop", json={"mode": "now"})
    await expect(page.locator("#kept")).to_contain_text("<b>short</b>", timeout=SOON_MS)


async def test_a_double_tap_approves_once_and_is_told_so(rest, page, asking):
    await page.goto(f"{rest.url}/inbox")
    await _asks(page, asking).get_by_role("button", name="Approve:").dblclick()
    await expect(page.get_by_text("approve, by test")).to_be_visible()


async def test_the_scores_of_several_dimensions_arrive(stage, rest, page):
    run = await stage.site.start(REVIEWED, {"replies": [{"text": "An oak."}]})
    await page.goto(f"{rest.url}/inbox")
    card = _asks(page, run)
    for at, (score, words) in enumerate((("0.9", "warm"), ("0.8", "one tree"))):
        await card.get_by_label("Score from 0 to 1").nth(at).fill(score, timeout=SOON_MS)
        await card.get_by_label("What is missing").nth(at).fill(words)
    await answered_by_mouse(card.get_by_role("button", name="Send the scores"))
    await page.wait_for_url("**/inbox?had=*")
    assert (await rest.ended(run))["best"]["score"] == pytest.approx(0.85)
