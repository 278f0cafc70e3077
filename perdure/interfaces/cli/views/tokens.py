"""Tokens of the REST API: a new one, and the list."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.installation.access import ApiToken
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, line, stack, table
from perdure.interfaces.formatting import ago, one_line


def made_view(token: ApiToken, text: str) -> RenderableType:
    """A new token; its secret cannot be shown again."""
    return stack(
        line(("✓ ", GOOD), f"{one_line(token.name)}: {', '.join(token.scopes)}"),
        line(text),
        line((_ends(token), DIM)),
        line((f"It reaches {_reach(token)}.", DIM)) if token.bound else None,
        line(("Keep it now: it is not shown again. Send it as", DIM)),
        line(("  authorization: Bearer <token>", DIM)),
    )


def tokens_view(tokens: Sequence[ApiToken], now: datetime) -> RenderableType:
    """One row for each token: whether it is usable, and until when."""
    if not tokens:
        return line("No tokens. Make one: perdure api token create NAME")
    rows = [
        (token.id, one_line(token.name), " ".join(token.scopes), _state(token, now),
         _day(token), ago(token.created_at, now), _used(token, now), _reach(token))
        for token in tokens
    ]  # fmt: skip
    return table(
        ("id", "name", "scopes", "state", "expires", "made", "used", "reaches"), rows, whole=("id",)
    )


def _reach(token: ApiToken) -> str:
    return ", ".join(one_line(place) for place in (*token.runs, *token.folders)) or "everything"


def _ends(token: ApiToken) -> str:
    return "It never expires." if token.expires_at is None else f"It expires on {_day(token)}."


def _day(token: ApiToken) -> str:
    return "never" if token.expires_at is None else f"{token.expires_at.astimezone(UTC):%Y-%m-%d}"


def _used(token: ApiToken, now: datetime) -> str:
    return "never" if token.last_used_at is None else ago(token.last_used_at, now)


def _state(token: ApiToken, now: datetime) -> Text:
    if token.usable(now):
        return Text("usable", style=GOOD)
    return Text("revoked" if token.revoked_at else "expired", style=BAD)
