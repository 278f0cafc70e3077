"""Cookies of the page, whose names tell the installations on one host apart.

Browsers send a cookie to all ports of a host, and keep one per name. With TLS a name begins with
`__Host-`: then neither another host of the domain nor a page over plain HTTP can set the cookie.
"""

import hashlib
import hmac
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

Kind = Literal["session", "sign_in"]
HOST_ONLY = "__Host-"
NAME_DIGITS = 8


def cookie_name(kind: Kind, key: bytes, *, secure: bool) -> str:
    """The name of a cookie; `key` is the signing key of the installation."""
    ours = hmac.digest(key, b"cookie name", hashlib.sha256).hex()[:NAME_DIGITS]
    return f"{HOST_ONLY if secure else ''}perdure_{kind}_{ours}"


def is_secure(scope: Scope, page_url: str | None) -> bool:
    """Whether a browser speaks TLS with the page.

    This process speaks plain HTTP. A proxy may use TLS; a trusted one says so. Of others only the
    origin of a form, or the address that the operator gave, shows it.
    """
    headers = Headers(scope=scope)
    public = urlsplit(page_url or "")
    at_home = public.scheme == "https" and headers.get("host", "").lower() == public.netloc.lower()
    by_proxy = scope.get("scheme") == "https"
    return at_home or by_proxy or headers.get("origin", "").startswith("https:")


def given_cookies(kind: Kind, key: bytes, scope: Scope, page_url: str | None) -> list[str]:
    """The cookies of a kind in a request, those that only this host can have set first.

    There may be several: another host of the domain can set one of the same name.
    """
    names = [cookie_name(kind, key, secure=True)]
    if not is_secure(scope, page_url):
        names.append(cookie_name(kind, key, secure=False))
    found = [
        pair.strip().partition("=")
        # A proxy that speaks HTTP/2 with the browser may send one header for each cookie.
        for pair in ";".join(Headers(scope=scope).getlist("cookie")).split(";")
    ]
    return [text for wanted in names for name, _, text in found if name == wanted]


def set_cookie(
    answer: Response, kind: Kind, text: str, *, key: bytes, secure: bool, seconds: int
) -> None:
    """Set a cookie that no script and no other site can use."""
    answer.set_cookie(
        cookie_name(kind, key, secure=secure),
        text,
        max_age=seconds,
        httponly=True,
        samesite="strict",
        secure=secure,
    )


def drop_cookie(answer: Response, kind: Kind, *, key: bytes) -> None:
    """Make the browser forget a cookie, with and without TLS."""
    for secure in (True, False):
        answer.delete_cookie(
            cookie_name(kind, key, secure=secure),
            httponly=True,
            samesite="strict",
            secure=secure,  # browsers refuse a `__Host-` cookie without it, even to delete one
        )
