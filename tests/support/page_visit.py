"""A person at the page without a browser: keeps the cookie, and sends forms as a page has them."""

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2
from playwright.async_api import Locator, Page
from rest import Rest
from web_ui import patient

from perdure.domain.installation.access import Scope
from perdure.interfaces.web.cookies import cookie_name

HEADING = re.compile(r"<h([1-6])\b")
PROSE = re.compile(r'<div class="prose.*?</div>', re.DOTALL)  # has headings of its own
MOVED = "have just moved, and nothing was sent"
FORM_KEY = re.compile(r'name="form_key" value="([0-9a-f]{64})"')


@dataclass
class Visitor:
    """Somebody with a session."""

    client: httpx2.AsyncClient
    url: str

    async def see(self, path: str, **headers: str) -> str:
        """The page at a path, whose headings skip no level: people move by them."""
        answer = await self.client.get(path, headers=headers, follow_redirects=True)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        if "<html" in answer.text:
            levels = [int(level) for level in HEADING.findall(PROSE.sub("", answer.text))]
            steps = zip([0, *levels], levels, strict=False)
            assert all(level <= before + 1 for before, level in steps), (path, levels)
        return answer.text

    async def form_key(self, path: str = "/runs") -> str:
        """What forms of this session carry."""
        found = FORM_KEY.search(await self.see(path))
        assert found is not None, f"no form at {path}"
        return found[1]

    async def send(
        self, path: str, fields: Mapping[str, str], *, key: str | None = None, **headers: str
    ) -> httpx2.Response:
        """Send a form, as a browser does from a page of ours."""
        given = {"origin": self.url, "sec-fetch-site": "same-origin"} | headers
        body = {**fields, "form_key": key if key is not None else ""}
        return await self.client.post(path, data=body, headers=given)


async def session_cookie(rest: Rest) -> str:
    """The name of the session's cookie over plain HTTP."""
    return cookie_name("session", await rest.api.services.access.signing_key(), secure=False)


@asynccontextmanager
async def visitor(rest: Rest, token: str) -> AsyncGenerator[Visitor]:
    """Sign in with a token."""
    async with httpx2.AsyncClient(base_url=rest.url, timeout=60, trust_env=False) as client:
        answer = await client.post("/sign-in", data={"token": token})
        assert answer.status_code == 303, answer.text
        yield Visitor(client, rest.url)


async def unfold(page: Page) -> None:
    """Open all groups of the start form, as a person does."""
    for group in await page.locator("details.group").all():
        if await group.get_attribute("open") is None:
            await group.locator("summary").click()


async def answered_by_mouse(button: Locator) -> None:
    """Press a button of a question; a press too soon after it came or moved sends nothing."""
    news = button.page.locator("#news")
    while True:
        await button.click()
        if MOVED not in (await news.text_content() or ""):
            return
        await news.evaluate("one => { one.textContent = ''; }")


async def signed_in(page: Page, rest: Rest, *scopes: Scope) -> Page:
    """Sign in with a token of these scopes (all, if none is named), as a person does."""
    patient(page)
    await page.goto(f"{rest.url}/runs")
    await page.fill("#token", await rest.token(*(scopes or ("admin",))))
    await page.press("#token", "Enter")
    await page.wait_for_url("**/runs")
    return page
