"""Who gets to the pages, and who does not."""

from datetime import UTC, datetime, timedelta

import httpx2
import pytest
from installation import Installation
from page_visit import Visitor, session_cookie, visitor
from rest import Rest, served

from perdure.adapters.stores.access import SqlAccess
from perdure.domain.foundation.errors import StoreAway
from perdure.domain.installation.access import Credentials
from perdure.interfaces.web.entrance import away_page, parts_of
from perdure.interfaces.web.session import Session, Ticket


async def ticket_of(rest: Rest, minutes: float = 2) -> str:
    """What `perdure open` puts into its address."""
    access = rest.api.services.access
    made = Credentials.read(await rest.token("admin"))
    assert made is not None
    token = await access.token(made.id)
    assert token is not None
    until = datetime.now(UTC) + timedelta(minutes=minutes)
    return Ticket(token=token.id, digest=token.digest, until=until).text(await access.signing_key())


@pytest.mark.parametrize(
    "path", ["/", "/inbox", "/runs", "/runs/x", "/nowhere", "/runs?kind=agent"]
)
async def test_a_guest_is_led_to_the_sign_in(guest: httpx2.AsyncClient, path: str) -> None:
    answer = await guest.get(path)
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/sign-in?next=%2F")


async def test_a_token_opens_a_session(rest: Rest, guest: httpx2.AsyncClient) -> None:
    given = {"token": await rest.token("read"), "next": "/runs?kind=agent"}
    answer = await guest.post("/sign-in", data=given)
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs?kind=agent")
    cookie = answer.headers["set-cookie"]
    for flag in ("HttpOnly", "SameSite=strict", "Path=/"):
        assert flag in cookie
    held = Credentials.read(given["token"])
    assert held is not None and held.secret not in cookie
    assert (await guest.get("/runs")).status_code == 200


@pytest.mark.parametrize(
    "next",
    [
        "https://elsewhere.example/",
        "//elsewhere.example",
        "/\\elsewhere.example",
        "javascript:x",
        "//[x",
        "http://[",
        "",
    ],
)
async def test_the_sign_in_leads_nowhere_else(
    rest: Rest, guest: httpx2.AsyncClient, next: str
) -> None:
    answer = await guest.post("/sign-in", data={"token": await rest.token("read"), "next": next})
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize("next", ["//[x", "http://["])
async def test_a_sign_in_with_an_unreadable_address_is_shown(
    guest: httpx2.AsyncClient, next: str
) -> None:
    answer = await guest.get("/sign-in", params={"next": next})
    assert answer.status_code == 200
    assert 'name="next" value="/"' in answer.text


@pytest.mark.parametrize("token", ["", "x", "perdure_00000000_" + "x" * 43])
async def test_a_wrong_token_says_what_to_do(guest: httpx2.AsyncClient, token: str) -> None:
    answer = await guest.post("/sign-in", data={"token": token})
    assert answer.status_code == 401
    assert "perdure api token create" in answer.text
    assert "set-cookie" not in answer.headers


async def test_the_cookie_is_no_key_to_the_api(rest: Rest, person: Visitor) -> None:
    answer = await person.client.get("/api/v1/loops")
    assert answer.status_code == 401
    text = person.client.cookies[await session_cookie(rest)]
    bearer = {"authorization": f"Bearer {text}"}
    assert (await person.client.get("/api/v1/loops", headers=bearer)).status_code == 401


async def test_a_session_ends_with_its_token(rest: Rest) -> None:
    text = await rest.token("read")
    made = Credentials.read(text)
    assert made is not None
    async with visitor(rest, text) as person:
        await person.see("/runs")
        await rest.api.services.access.revoke_token(made.id, at=datetime.now(UTC))
        assert (await person.client.get("/runs")).status_code == 303


async def test_a_session_that_was_tampered_with_is_none(rest: Rest, person: Visitor) -> None:
    name = await session_cookie(rest)
    text = person.client.cookies[name]
    for place in (0, 50, len(text) - 2):
        other = "A" if text[place] != "A" else "B"
        forged = {"cookie": f"{name}={text[:place]}{other}{text[place + 1 :]}"}
        async with httpx2.AsyncClient(base_url=rest.url, trust_env=False) as client:
            assert (await client.get("/runs", headers=forged)).status_code == 303


async def test_a_session_is_over_after_its_time(rest: Rest) -> None:
    access, now = rest.api.services.access, datetime.now(UTC)
    made = Credentials.read(await rest.token("read"))
    assert made is not None
    token = await access.token(made.id)
    assert token is not None
    key = await access.signing_key()
    text = Session.of(token, mark="m", now=now).text(key)
    assert Session.read(text, key, now=now) is not None
    assert Session.read(text, key, now=now + timedelta(hours=12)) is None
    assert Ticket.read(text, key, now=now) is None, "each kind is signed for itself"


async def test_who_has_no_scripts_is_told_that_tickets_need_them(
    guest: httpx2.AsyncClient,
) -> None:
    page = (await guest.get("/sign-in")).text
    told = page.partition("<noscript>")[2].partition("</noscript>")[0]
    assert "<code>perdure open</code> signs nobody in: use a token." in told


async def test_a_ticket_opens_one_session(rest: Rest, guest: httpx2.AsyncClient) -> None:
    ticket = await ticket_of(rest)
    first = await guest.post("/sign-in/ticket", data={"ticket": ticket, "next": "/runs"})
    assert (first.status_code, first.headers["location"]) == (303, "/runs")
    assert (await guest.get("/runs")).status_code == 200
    again = await guest.post("/sign-in/ticket", data={"ticket": ticket})
    assert again.status_code == 401
    assert "perdure open" in again.text


async def test_an_old_or_forged_ticket_opens_none(rest: Rest, guest: httpx2.AsyncClient) -> None:
    for ticket in (await ticket_of(rest, minutes=-1), "x", "", (await ticket_of(rest))[:-3]):
        answer = await guest.post("/sign-in/ticket", data={"ticket": ticket})
        assert answer.status_code == 401


async def test_signing_out_forgets_the_session_and_is_told_once(
    rest: Rest, person: Visitor
) -> None:
    key = await person.form_key("/runs")
    for _ in range(2):
        assert (await person.send("/sign-in/out", {}, key=key)).status_code == 303
    assert (await person.client.get("/runs")).status_code == 303
    answer = await rest.client.get("/api/v1/audit", params={"action": "signed_out"})
    (told,) = answer.json()["items"]
    assert told["about"] == "page from address 127.0.0.1"
    assert "test (" in told["who"]


async def test_what_is_refused_on_the_page_is_told_once(rest: Rest) -> None:
    text = await rest.token("read")
    async with visitor(rest, text) as reader:
        sent = await reader.send("/runs/x/pause", {}, key=await reader.form_key("/runs"))
    assert sent.status_code == 403
    who = f"test ({text.split('_')[1]})"
    answer = await rest.client.get("/api/v1/audit", params={"action": "access", "who": who})
    (told,) = answer.json()["items"]
    assert (told["outcome"], told["about"]) == ("refused", "POST /api/v1/loops/x/pause")


async def test_a_copy_of_a_session_is_dead_after_the_sign_out(
    bare: Installation, rest: Rest, person: Visitor
) -> None:
    copy = {"cookie": "; ".join(f"{name}={text}" for name, text in person.client.cookies.items())}
    key = await person.form_key()
    async with served(bare) as neighbour, _thief(neighbour) as at_neighbour, _thief(rest) as here:
        for thief in (here, at_neighbour):
            assert (await thief.get("/runs", headers=copy)).status_code == 200
        assert (await person.send("/sign-in/out", {}, key=key)).status_code == 303
        for thief in (here, at_neighbour):
            assert (await thief.get("/runs", headers=copy)).status_code == 303
            write = await thief.post("/runs/x/pause", data={"form_key": key}, headers=copy)
            assert write.status_code == 401
    async with served(bare) as restarted, _thief(restarted) as thief:
        assert (await thief.get("/runs", headers=copy)).status_code == 303


async def test_a_sign_in_ends_the_session_that_the_browser_had(rest: Rest, person: Visitor) -> None:
    copy = {"cookie": "; ".join(f"{name}={text}" for name, text in person.client.cookies.items())}
    again = await person.client.post("/sign-in", data={"token": await rest.token("read")})
    assert again.status_code == 303
    async with _thief(rest) as thief:
        assert (await thief.get("/runs", headers=copy)).status_code == 303
    assert (await person.client.get("/runs")).status_code == 200


async def test_nobody_is_told_to_be_signed_out_while_the_store_is_away(
    person: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_given: object, **_named: object) -> None:
        raise StoreAway("The database cannot be reached.", cure="Start its server.")

    with monkeypatch.context() as patch:
        patch.setattr(SqlAccess, "end_session", away)
        answer = await person.send("/sign-in/out", {})
        assert answer.status_code == 503
        assert "set-cookie" not in answer.headers
    assert (await person.send("/sign-in/out", {})).status_code == 303


def _thief(rest: Rest) -> httpx2.AsyncClient:
    """Somebody without cookies of their own."""
    return httpx2.AsyncClient(base_url=rest.url, timeout=60, trust_env=False)


FOREIGN = {
    "another origin": {"origin": "https://elsewhere.example"},
    "an origin that cannot be read": {"origin": "http://["},
    "no origin of a sandboxed frame": {"origin": "null"},
    "said to be of another site": {"sec-fetch-site": "cross-site"},
    "said to be of a neighbour": {"sec-fetch-site": "same-site"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN.keys())
async def test_a_form_of_another_site_does_nothing(
    person: Visitor, headers: dict[str, str]
) -> None:
    key = await person.form_key()
    answer = await person.send("/runs/x/pause", {}, key=key, **headers)
    assert answer.status_code == 403
    assert "another site" in answer.text


async def test_a_form_without_its_key_does_nothing(rest: Rest, person: Visitor) -> None:
    async with visitor(rest, await rest.token("admin")) as other:
        keys = ["", "0" * 64, await other.form_key()]
    for key in keys:
        answer = await person.send("/runs/x/pause", {}, key=key)
        assert answer.status_code == 403
        assert "not of this session" in answer.text


async def test_a_long_form_is_refused_before_it_is_read(person: Visitor) -> None:
    answer = await person.send("/runs/x/input", {"text": "x" * 2_000_000})
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/sign-in", "/runs", "/nowhere"])
async def test_every_answer_forbids_what_pages_do_not_do(person: Visitor, path: str) -> None:
    headers = (await person.client.get(path)).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


async def test_a_link_from_elsewhere_is_asked_for_once_more(guest: httpx2.AsyncClient) -> None:
    answer = await guest.get("/runs/x", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 200
    assert 'http-equiv="refresh"' in answer.text


async def test_files_may_be_kept_for_ever(person: Visitor) -> None:
    page = await person.see("/runs")
    for name in ("page.css", "page.js", "icon.svg"):
        (address,) = {part for part in page.split('"') if part.endswith(f"/{name}")}
        answer = await person.client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
        old = address.replace(address.split("/")[2], "0" * 12)
        assert (await person.client.get(old)).headers["location"] == address


async def test_a_reader_sees_no_forms_that_steer(rest: Rest) -> None:
    async with visitor(rest, await rest.token("read")) as reader:
        assert "Pause selected" not in await reader.see("/runs")


@pytest.mark.parametrize(("length", "shown"), [(10, True), (70_000, False)])
async def test_words_of_a_form_whose_session_has_ended_are_shown(
    guest: httpx2.AsyncClient, rest: Rest, length: int, shown: bool
) -> None:
    text = "<i>" + "w" * length
    fields = {"form_key": "0" * 64, "choice": "continue", "text": text}
    headers = {"origin": rest.url, "sec-fetch-site": "same-origin"}
    answer = await guest.post("/runs/r/gates/g1/answer", data=fields, headers=headers)
    assert answer.status_code == 401
    assert (f"&lt;i&gt;{'w' * length}" in answer.text) is shown
    assert "0" * 64 not in answer.text
    foreign = await guest.post(
        "/runs/r/input", data=fields, headers={"origin": "https://x.example"}
    )
    assert (foreign.status_code, text[:9] in foreign.text) == (403, False)


@pytest.mark.parametrize(("reads", "kept"), [(True, False), (False, True)])
def test_words_that_the_store_was_away_for_stay_in_the_tab(reads: bool, kept: bool) -> None:
    page = away_page(datetime.now(UTC), detail="d", cure="c", reads=reads)
    assert (b"<body data-refused>" in page.body) is kept


@pytest.mark.parametrize(
    ("address", "host"),
    [("http://a.example/b", "a.example"), ("null", ""), ("http://[", None), ("//[x", None)],
)
def test_an_address_that_cannot_be_read_has_no_parts(address: str, host: str | None) -> None:
    parts = parts_of(address)
    assert (None if parts is None else parts.netloc) == host
