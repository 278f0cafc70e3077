"""The texts of a form as a browser sends them: each end of a line is CRLF, and some are long."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from page_visit import visitor
from refining import draft, spec, written
from rest import Rest, scripted, served
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message
from temporalio.testing import WorkflowEnvironment
from waiting import eventually

from perdure.interfaces.rest.settings import ApiRules, ApiSite
from perdure.interfaces.web.visit import fields_of

FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=b"
SENT = {
    "as a browser does": (FORM, b"goal=one%0D%0Atwo%0D%0A"),
    "as a program does": (FORM, b"goal=one%0Atwo%0A"),
    "of an old editor": (FORM, b"goal=one%0Dtwo%0D"),
    "with files": (
        PARTS,
        b'--b\r\ncontent-disposition: form-data; name="goal"\r\n\r\none\r\ntwo\r\n\r\n--b--\r\n',
    ),
}
HUMAN = [
    {"name": name, "description": f"its {name}", "evaluator": {"human": {}}}
    for name in ("tone", "facts")
]


def form(media: str, body: bytes, *, body_bytes: int = 1024) -> Request:
    """A form that an installation gets which takes so many bytes."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    unused: Any = None
    rules = ApiRules(body_bytes=body_bytes)
    site = ApiSite(services=unused, surroundings=unused, now=unused, version="", rules=rules)
    app = SimpleNamespace(state=SimpleNamespace(site=site))
    headers = [(b"content-type", media.encode())]
    return Request({"type": "http", "method": "POST", "headers": headers, "app": app}, receive)


@pytest.mark.parametrize(("media", "body"), SENT.values(), ids=SENT)
async def test_ends_of_lines_are_one_sign(media: str, body: bytes) -> None:
    assert await fields_of(form(media, body)) == {"goal": "one\ntwo\n"}


@pytest.mark.parametrize(("media", "body"), SENT.values(), ids=SENT)
async def test_a_field_may_be_as_long_as_the_body(media: str, body: bytes) -> None:
    long = b"x" * 1024 * 1024
    request = form(media, body.replace(b"one", long), body_bytes=2 * len(long))
    assert len((await fields_of(request))["goal"]) == len(long) + len("\ntwo\n")
    with pytest.raises(HTTPException):
        await fields_of(form(media, body.replace(b"one", long), body_bytes=len(long)))


@pytest.fixture
async def reviewed(tmp_path: Path, server: WorkflowEnvironment) -> AsyncIterator[Rest]:
    """With a worker, and a model that writes a draft for people to score."""
    address = server.client.service_client.config.target_host
    script = {"replies": written(draft(0.2, "a"))}
    async with scripted(tmp_path, address, script) as site, site.worker(), served(site) as rest:
        yield rest


async def test_a_review_of_several_dimensions_is_answered_by_a_form(reviewed: Rest) -> None:
    run = await reviewed.start(spec(HUMAN, max_iterations=1))

    async def listed() -> bool:
        found = (await reviewed.client.get("/api/v1/gates", params={"limit": 100})).json()
        return run in {one["run"] for one in found["items"]}

    await eventually(listed)
    async with visitor(reviewed, await reviewed.token("admin")) as person:
        page = await person.see(f"/runs/{run}")
        assert 'name="scores" value="tone\nfacts"' in page
        fields = {"scores": "tone\r\nfacts", "score:tone": "0.9", "score:facts": "0.8"}
        key = await person.form_key()
        sent = await person.send(f"/runs/{run}/gates/g1/answer", fields, key=key)
    assert sent.status_code == 303, sent.text
    best = (await reviewed.ended(run))["best"]
    assert isinstance(best, dict)
    assert best["score"] == pytest.approx(0.85)
