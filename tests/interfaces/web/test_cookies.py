"""Names of cookies: one for each installation, and safe from other hosts behind TLS."""

import pytest
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from perdure.interfaces.web.cookies import cookie_name, drop_cookie, given_cookies, is_secure

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
PLAIN = cookie_name("session", KEY, secure=False)
GUARDED = cookie_name("session", KEY, secure=True)
PUBLIC = "https://loops.example.org"


def given(cookie: str, page_url: str | None = None, **headers: str) -> list[str]:
    return given_cookies("session", KEY, scope(cookie=cookie, **headers), page_url)


def scope(scheme: str = "http", **headers: str) -> Scope:
    """A request as the server passes it on."""
    return {"type": "http", "scheme": scheme, "headers": Headers(headers).raw}


def test_installations_on_one_host_have_cookies_of_their_own() -> None:
    other = cookie_name("session", OTHER_KEY, secure=False)
    assert given(f"{other}=theirs; {PLAIN}=ours") == ["ours"]
    assert cookie_name("sign_in", KEY, secure=False) != PLAIN


def test_a_name_behind_tls_cannot_be_set_by_another_host() -> None:
    assert f"__Host-{PLAIN}" == GUARDED


@pytest.mark.parametrize(
    ("cookie", "host", "found"),
    [
        (f"{PLAIN}=planted; {GUARDED}=ours", "loops.example.org", ["ours"]),
        (f"{PLAIN}=planted", "loops.example.org", []),
        (f"{PLAIN}=planted", "Loops.Example.org", []),
        (f"{PLAIN}=local", "127.0.0.1:8237", ["local"]),
        (f"{PLAIN}=first; {PLAIN}=second", "127.0.0.1:8237", ["first", "second"]),
        ('theirs={"a": [1, 2]}; ' + f"{PLAIN}=ours", "127.0.0.1:8237", ["ours"]),
        ("", "127.0.0.1:8237", []),
    ],
    ids=["both", "planted", "capitals", "loopback", "two paths", "a neighbour's JSON", "none"],
)
def test_only_a_cookie_that_this_host_set_counts_behind_tls(
    cookie: str, host: str, found: list[str]
) -> None:
    assert given(cookie, PUBLIC, host=host) == found


@pytest.mark.parametrize(
    ("headers", "page_url", "secure"),
    [
        ({"host": "h:1", "origin": "https://h:1"}, None, True),
        ({"host": "h:1", "origin": "http://h:1"}, None, False),
        ({"host": "loops.example.org"}, PUBLIC, True),
        ({"host": "127.0.0.1:8237", "origin": "http://127.0.0.1:8237"}, PUBLIC, False),
        ({"host": "h:1"}, "http://h:1", False),
        ({}, None, False),
    ],
)
def test_tls_is_known_by_the_origin_or_the_settings(
    headers: dict[str, str], page_url: str | None, secure: bool
) -> None:
    assert is_secure(scope(**headers), page_url) is secure


def test_a_trusted_proxy_says_that_it_speaks_tls() -> None:
    assert is_secure(scope("https", host="h:1"), None)


def test_a_browser_takes_the_end_of_both_cookies() -> None:
    answer = Response()
    drop_cookie(answer, "session", key=KEY)
    guarded, plain = answer.headers.getlist("set-cookie")
    assert guarded.startswith(f'{GUARDED}="";')
    assert "Secure" in guarded and "Path=/" in guarded
    assert plain.startswith(f'{PLAIN}="";') and "Secure" not in plain
