"""What fails inside is told as any other problem, with its cure, on a page to go on from."""

from collections.abc import Awaitable, Callable

import httpx2
import pytest
from page_visit import Visitor
from rest import Rest

from perdure.interfaces.web.runs import routes
from perdure.interfaces.web.sign_in import routes as sign_in_routes

TOLD = "Something failed inside. Its cause is in the log of the API."
CURE = "perdure logs api"


def broken(*_given: object, **_named: object) -> Awaitable[object]:
    raise RuntimeError("a secret of the machine")


@pytest.fixture(params=["in the API", "in the page"])
def defect(
    request: pytest.FixtureRequest, rest: Rest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Breaks the list of runs."""

    def breaks() -> None:
        if request.param == "in the API":
            monkeypatch.setattr(rest.api.services.gateway, "list", broken)
        else:
            monkeypatch.setattr(routes, "_glances", broken)

    return breaks


async def test_a_page_says_what_to_do(person: Visitor, defect: Callable[[], None]) -> None:
    defect()
    answer = await person.client.get("/runs")
    assert answer.status_code == 500
    assert TOLD in answer.text
    assert CURE in answer.text
    assert "To the runs" in answer.text
    assert "secret" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


async def test_a_form_gives_its_words_back(
    person: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await person.form_key()
    monkeypatch.setattr("perdure.interfaces.web.inbox.routes.at", broken)
    fields = {"choice": "other", "text": "typed for an hour"}
    answer = await person.send("/runs/r/gates/g1/answer", fields, key=key)
    assert answer.status_code == 500
    assert TOLD in answer.text
    assert "typed for an hour" in answer.text


async def test_a_guest_is_told_too(
    guest: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sign_in_routes, "own", broken)
    answer = await guest.get("/sign-in")
    assert answer.status_code == 500
    assert TOLD in answer.text
    assert CURE in answer.text


@pytest.mark.parametrize(
    ("method", "path", "media", "status", "title"),
    [
        ("GET", "/nowhere", "", 404, "Not found"),
        ("GET", "/library/%2e%2e/loops", "", 404, "Not found"),
        ("GET", "/runs/%2e", "", 404, "Not found"),
        ("GET", "/inbox/alike", "", 405, "Method not allowed"),
        ("POST", "/inbox/alike", "multipart/form-data", 400, "Bad request"),
    ],
)
async def test_what_the_framework_refuses_goes_by_its_own_name(
    person: Visitor, method: str, path: str, media: str, status: int, title: str
) -> None:
    headers = {"origin": person.url, "content-type": media}
    answer = await person.client.request(method, path, headers=headers)
    assert answer.status_code == status
    assert f"<h1>{title}</h1>" in answer.text
    assert status == 404 or "Open the page again, and send it from there." in answer.text
