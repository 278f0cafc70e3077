"""What models and strangers write is inert on every view, and honest text is shown whole."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from page_visit import signed_in
from playwright.async_api import Page, expect
from waiting import eventually

from perdure.adapters.definitions.store import LoopFiles

MARK = "https://elsewhere.example/x"
SCRIPT = (
    f"<script src={MARK}></script><script>window.stolen=1</script>"
    f"<img src={MARK} onerror=window.stolen=1><svg onload=window.stolen=1></svg>"
    f"<style>@import '{MARK}'; body{{display:none}}</style><iframe src={MARK}></iframe>"
    f"<form action={MARK}><button>Approve</button></form><base href={MARK}>"
    f'"><b hx-get="{MARK}" hx-trigger="load">x</b>'
    "[link](javascript:window.stolen=1) <javascript:window.stolen=1> {{ 7 * 7 }} {% raw %}"
    f" ![picture]({MARK})"
)
DEFINITION = "hostile"
HONEST = "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe & <b>bold</b> &amp; שלום"


@dataclass
class Seen:
    """What a tab did that no text may make it do."""

    dialogs: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def watched(page: Page, own: str) -> Seen:
    """Note dialogs and requests to anywhere else."""
    seen = Seen()

    async def note(dialog: object) -> None:
        seen.dialogs.append(str(dialog))
        await dialog.dismiss()  # type: ignore[attr-defined]

    page.on("dialog", note)
    page.on(
        "request",
        lambda request: None if request.url.startswith(own) else seen.requests.append(request.url),
    )
    return seen


@pytest.fixture(scope="module")
async def hostile(stage) -> Sequence[str]:
    """Runs whose goal, label, drafts, judges, tool calls, errors and models are all hostile.

    Beside them a definition is.
    """
    site = stage.site
    defined = SCRIPT.replace("{{ 7 * 7 }}", "")  # would be a parameter, and refused
    await LoopFiles(site.home).create(
        {
            "name": DEFINITION,
            "description": defined,
            "roles": [{"role": "coder", "prompt": f"Do it. {defined}"}],
            "termination_condition": {"type": "iteration_bound", "value": 2},
        },
        only_new=True,
    )
    named = await site.script({"replies": [{"text": "done"}]})
    model = f"{named}#<img src={MARK} onerror=window.stolen=1>"
    played = await site.start(
        {
            "kind": "agent",
            "goal": "play",
            "recall": False,
            "learn": False,
            "models": {"executor": model},
        }
    )
    said = {"name": "tone", "score": 0.2, "gap": SCRIPT}
    found = {"severity": "important", "title": SCRIPT, "dimension": "tone", "detail": SCRIPT}
    drafted = await site.start(
        {
            "kind": "refine",
            "goal": f"Write it. {SCRIPT}",
            "rubric": [{"name": "tone", "description": SCRIPT, "evaluator": {"judge": {}}}],
            "recall": False,
            "learn": False,
            "refine": {
                "max_iterations": 2,
                "plan": "off",
                "classify": "off",
                "escalate_below": 0.6,
            },
            "metadata": {"label": "<img src=x onerror=window.stolen=1>"},
        },
        {
            "replies": [
                {"when": {"role": "executor"}, "text": f"{HONEST}\n\n{SCRIPT}\n\n{'x' * 20_000}"},
                {
                    "when": {"role": "evaluator"},
                    "json": {"dimensions": [said], "findings": [found]},
                },
            ]
        },
    )
    content = f"{SCRIPT}\n{HONEST}\n"
    arguments = {
        "path": "<svg onload=window.stolen=1>.md",
        "content": content,
        "expected_hash": "absent",
    }
    asking = await site.start(
        {
            "kind": "agent",
            "goal": SCRIPT,
            "recall": False,
            "learn": False,
            "tools": {"access": "full", "allow": ["fs.write"], "approve": ["fs.write"]},
        },
        {
            "replies": [
                {"tool_calls": [{"name": "fs.write", "arguments": arguments}]},
                {"text": "done"},
            ],
        },
    )
    failed = await site.start(
        {"kind": "agent", "goal": "fail", "recall": False, "learn": False},
        {"replies": [{"error": {"status": 401, "message": SCRIPT}}]},
    )
    for run in (drafted, asking):
        await eventually(lambda name=run: _waits(site, name))
    for run in (failed, played):
        await site.gateway.result(run)
    return drafted, asking, failed, played


async def _waits(site, run: str) -> bool:
    return (await site.status(run)).lifecycle == "waiting"


@pytest.mark.parametrize("width", [360, 1280])
async def test_nothing_that_was_written_acts(stage, rest, browser, hostile, width):
    tab = await browser.new_page(viewport={"width": width, "height": 900})
    page = await signed_in(tab, rest)
    seen = watched(page, rest.url)
    drafted, _asking, failed, _played = hostile
    views = [
        "/inbox",
        "/runs",
        f"/compare?left={drafted}&right={failed}",
        "/costs?by=label",
        "/costs?by=model",
        "/library",
        "/library?shelf=definition",
        f"/library/definition/{DEFINITION}",
    ]
    for run in hostile:
        views += [f"/runs/{run}", f"/runs/{run}/tree", f"/runs/{run}/iterations/1"]
        views += [f"/runs/{run}/iterations/1/calls"]
    for path in views:
        answer = await page.goto(rest.url + path)
        assert answer is not None
        assert answer.status in {200, 404}, path
        for one in await page.locator("details > summary").all():
            if await one.is_visible():
                await one.click()
        await page.wait_for_timeout(200)
        assert await page.evaluate("window.stolen") is None, path
        assert await page.evaluate("getComputedStyle(document.body).display") != "none", path
        foreign = await page.evaluate(
            "document.querySelectorAll('main script, iframe, base, style, [onerror], [onload],"
            " main form[action^=http], a[href^=javascript], main [hx-get^=http]').length"
        )
        assert foreign == 0, path
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, path
    assert (seen.dialogs, seen.requests) == ([], [])


async def test_honest_text_is_shown_whole(rest, page, hostile):
    drafted, *_ = hostile
    await page.goto(f"{rest.url}/inbox")
    card = page.locator(".card", has_text="onload=window.stolen=1>.md").first
    await expect(card).to_be_visible()
    told = await card.inner_text()
    assert "& <b>bold</b> &amp; שלום" in told, "what is approved is seen as it stands"
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in told, "what turns text around is shown as a sign"
    assert re.search(r"<script>window\.stolen=1</script>", told)
    await page.goto(f"{rest.url}/runs/{drafted}")
    assert "x" * 20_000 in (await page.locator("main").text_content() or "")


async def test_names_of_models_and_definitions_are_text(rest, page, hostile):
    *_, played = hostile
    for path in (f"/runs/{played}", "/costs?by=model"):
        await page.goto(rest.url + path)
        assert "scripted:<img src=" in (await page.locator("main").text_content() or ""), path
    await page.goto(f"{rest.url}/library/definition/{DEFINITION}")
    assert "<iframe src=" in (await page.locator("main").text_content() or "")


async def test_no_other_site_frames_a_page_or_learns_where_somebody_was(rest, browser, page):
    await page.goto(f"{rest.url}/runs")
    elsewhere = await browser.new_page()
    await elsewhere.set_content(f'<iframe src="{rest.url}/inbox" name="stolen"></iframe>')
    frame = elsewhere.frame("stolen")
    assert frame is not None
    await elsewhere.wait_for_timeout(500)
    assert await frame.locator("main").count() == 0
    answer = await page.goto(f"{rest.url}/runs?label=secret")
    assert answer is not None
    assert answer.headers["referrer-policy"] == "same-origin"
