"""A person's day at the page, without another tool: start, watch, approve, steer, fork and stop."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from installation import Installation, WorkerProcess
from page_visit import answered_by_mouse, signed_in, unfold
from playwright.async_api import Browser, Page, expect
from rest import Rest, scripted, served
from temporalio.testing import WorkflowEnvironment

SOON_MS, LONG_MS = 20_000, 60_000
THIN = "A bottle that keeps drinks cold. Made from recycled steel, ready for any day."
WHOLE = "Cold water on every hike: recycled steel, light in the bag, clean with a drop of soap."
NOTES = "# 2.4\n- faster start\n"
WRITING = {"path": "notes.md", "content": NOTES, "expected_hash": "absent"}
SCRIPT: dict[str, object] = {
    "price": {"input_per_million": 3.0, "output_per_million": 15.0},
    "replies": [
        {
            "when": {"contains": "release notes"},
            "tool_calls": [{"name": "fs.write", "arguments": WRITING}],
        },
        {"when": {"contains": "release notes"}, "text": "The notes are in notes.md."},
        # The fork asks for more than any draft has, and its second draft takes its time.
        {"when": {"contains": "never rusts"}, "text": WHOLE},
        {"when": {"contains": "never rusts"}, "text": THIN, "delay_s": 600},
        {"when": {"role": "executor"}, "text": THIN},
        # Long enough for a worker to be killed, and for another one to make the call again.
        {"when": {"role": "executor"}, "text": WHOLE, "delay_s": 8},
    ],
}
QUIET = 'recall: false\nlearn: false\nrefine: {plan: "off", classify: "off"}'
TOOLS = "tools: {access: full, allow: [fs.write], approve: [fs.write]}"
WRITER = f"recall: false\nlearn: false\n{TOOLS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """Where the person works: the page, and the worker that is going to die."""

    site: Installation
    rest: Rest
    worker: WorkerProcess


@pytest.fixture
async def office(server: WorkflowEnvironment, tmp_path: Path) -> AsyncIterator[Office]:
    address = server.client.service_client.config.target_host
    async with (
        scripted(tmp_path / "home", address, SCRIPT) as site,
        served(site) as rest,
        site.worker_process() as worker,
    ):
        yield Office(site=site, rest=rest, worker=worker)


async def _start(page: Page, rest: Rest, **fields: str) -> str:
    """Fill in the form, read the worst case, start; the id of the run."""
    await page.goto(f"{rest.url}/new")
    await unfold(page)
    await page.select_option("select[name=kind]", fields.pop("kind", "refine"))
    for name, value in fields.items():
        await page.fill(f"[name={name}]", value)
    await page.get_by_role("button", name="See what it could cost").click()
    await expect(page.locator("#plan-title")).to_contain_text("It could cost $0.50 at most")
    await page.get_by_role("button", name="Start it").click()
    await page.wait_for_url("**/runs/*")
    return page.url.rsplit("/", 1)[1]


async def _ends(page: Page, state: str) -> None:
    await expect(page.locator(".sentence .state")).to_have_text(state, timeout=LONG_MS)


async def _watched_through_a_kill(page: Page, office: Office) -> str:
    """A run improves while somebody watches, and its worker dies under it."""
    run = await _start(
        page, office.rest, goal="Write a product text for a steel bottle", mention="steel, soap",
        most_words="40", cost_usd="0.50", more=QUIET,
    )  # fmt: skip
    await expect(page.locator("#iteration-1")).to_be_visible(timeout=LONG_MS)
    await page.evaluate("window.stayed = true")
    await office.worker.kill()
    await office.worker.start()
    await _ends(page, "accepted")
    assert await page.evaluate("window.stayed"), "nobody had to load the page again"
    await expect(page.locator("#connection")).to_be_hidden()
    await expect(page.get_by_text("clean with a drop of soap").first).to_be_visible()
    return run


async def _approved_with_the_change_in_view(page: Page, rest: Rest) -> None:
    run = await _start(
        page, rest, kind="agent", goal="Write the release notes to notes.md", cost_usd="0.50",
        more=WRITER,
    )  # fmt: skip
    await page.get_by_role("link", name="Inbox").click()
    card = page.locator(".card", has_text="release notes")
    await expect(card.locator("pre.diff")).to_contain_text("+- faster start", timeout=SOON_MS)
    await answered_by_mouse(card.get_by_role("button", name="Approve"))
    await expect(page.locator(".card", has_text="release notes")).to_have_count(0, timeout=SOON_MS)
    await page.goto(f"{rest.url}/runs/{run}")
    await _ends(page, "accepted")


async def _forked_steered_and_stopped(page: Page, rest: Rest, run: str) -> None:
    await page.goto(f"{rest.url}/runs/{run}/iterations/1/fork")
    await page.fill("[name=goal]", "Write a product text for a bottle that never rusts")
    await page.fill("[name=set]", "refine.quality_threshold=1\nrefine.min_iterations=3")
    await page.get_by_role("button", name="Start the fork").click()
    await page.wait_for_url(lambda url: "/iterations/" not in url and run not in url)
    await expect(page.locator("#iteration-2")).to_be_visible(timeout=LONG_MS)

    await page.locator("#amend > summary").click()
    await page.locator("#amend [name=cost_usd]").fill("0.75")
    await page.get_by_role("button", name="Change", exact=True).click()
    await expect(page.locator(".figures")).to_contain_text("of $0.75", timeout=SOON_MS)

    await page.get_by_role("button", name="Ask a person").click()
    page.on("dialog", lambda dialog: dialog.accept())
    await page.get_by_role("button", name="Stop", exact=True).click()
    await expect(page.locator(".sentence")).to_contain_text("told to stop", timeout=SOON_MS)
    await page.get_by_role("button", name="Stop now").click()
    await _ends(page, "stopped")
    await expect(page.get_by_text("clean with a drop of soap").first).to_be_visible()


async def test_a_whole_day(office: Office, browser: Browser) -> None:
    page = await signed_in(await browser.new_page(), office.rest)
    run = await _watched_through_a_kill(page, office)
    await _approved_with_the_change_in_view(page, office.rest)
    await _forked_steered_and_stopped(page, office.rest, run)


async def test_of_two_people_at_one_question_the_second_is_told(stage, rest, browser) -> None:
    people = [
        await signed_in(await (await browser.new_context()).new_page(), rest) for _ in range(2)
    ]
    asked = [person.locator(".card", has_text="notes.md") for person in people]
    for person, card in zip(people, asked, strict=True):
        await person.goto(f"{rest.url}/inbox")
        await expect(card).to_be_visible()
    second = people[1]
    # Their inbox no longer renews itself, as on a bad connection.
    await second.route("**/inbox", lambda route: route.abort())
    await answered_by_mouse(asked[0].get_by_role("button", name="Approve"))
    await expect(asked[0]).to_have_count(0, timeout=SOON_MS)
    await answered_by_mouse(asked[1].get_by_role("button", name="Deny"))
    await expect(second.get_by_role("heading")).to_have_text("Your answer was not taken")
    result = await stage.site.gateway.result(stage.scenes.approval)
    assert result.outcome == "accepted"
