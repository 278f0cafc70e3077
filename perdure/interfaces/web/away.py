"""What the page says while the store is away: what is missing, that runs go on, and what to do."""

from datetime import datetime

from starlette.responses import HTMLResponse

from perdure.interfaces.web.rendering import rendered

AWAY = "perdure-away"
"""The header that tells a script what is away; see `page.js`."""
RETRY_S = "5"


def away_page(now: datetime, *, detail: str, cure: str, reads: bool) -> HTMLResponse:
    """The answer in place of any page; one that was read comes back by itself.

    Args:
        now: the time.
        detail: what was found.
        cure: what mends it.
        reads: whether the request only reads, so that it may be asked again.
    """
    body = rendered(
        "layout/away.html", now, detail=detail, cure=cure, reads=reads, not_taken=not reads
    )
    headers = {AWAY: "store", "retry-after": RETRY_S}
    return HTMLResponse(body, status_code=503, headers=headers)
