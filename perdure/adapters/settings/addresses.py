"""Addresses of services in the settings, read as the client of the service will read them."""

from typing import Annotated

from pydantic import AfterValidator

HIGHEST_PORT = 65535


def _readable(url: str) -> str:
    # Imported only if one is set, because every command reads the settings.
    import httpx2

    try:
        port = httpx2.URL(url).port
    except httpx2.InvalidURL as error:
        raise ValueError(f"an address such as https://models.example.org/v1 ({error})") from None
    if port is not None and not 0 < port <= HIGHEST_PORT:
        raise ValueError(f"an address with a port from 1 to {HIGHEST_PORT}")
    return url


Url = Annotated[str, AfterValidator(_readable)]
