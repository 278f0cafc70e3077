"""The REST API: serve it, and make, rotate, list and revoke the tokens that open it."""

import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.text import Text

from perdure.domain.foundation.errors import Conflict, InvalidInput, NotAllowed, NotFound
from perdure.domain.installation.access import (
    NAME_CHARACTERS,
    OVERLAP_HOURS,
    ApiToken,
    Credentials,
    digest_of,
    require_bindable,
    scopes_of,
)
from perdure.domain.installation.single_sign_on import stands_for_person
from perdure.domain.run.audit import Action
from perdure.interfaces.audit_trail import AuditTrail
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, line, stack, table
from perdure.interfaces.formatting import ago, one_line
from perdure.interfaces.services import Services

USUAL = ("read", "operate", "answer")
MOST_DAYS = 36_500
MOST_OVERLAP_HOURS = 720
Scopes = Annotated[tuple[str, ...], Parameter(name="--scope", negative="")]
Bounds = Annotated[tuple[str, ...], Parameter(negative="")]
Forever = Annotated[bool, Parameter(negative="")]
TokenId = Annotated[str, Parameter(name="ID")]
api_app = App(name="api", help="Serve the REST API and manage its tokens.", version_flags=())
token_app = App(name="token", help="Manage the tokens of the REST API.", version_flags=())


api_app.command(token_app)


@api_app.default
@api_app.command
async def serve(*, host: str | None = None, port: int | None = None, session: Given) -> None:
    """Serve the REST API in the foreground; `perdure up` starts it too.

    Args:
        host: Address to listen on. Default: PERDURE_API_HOST.
        port: Port to listen on; 0 takes a free one. Default: PERDURE_API_PORT.
    """

    def tell(url: str) -> None:
        session.output.show(line(f"REST API: {url}"), {"type": "api", "url": url})
        session.output.note("Tokens: perdure api token create NAME. Ctrl-C ends it.", style=DIM)

    await session.context.run_api(host=host, port=port, on_ready=tell)


@token_app.command
async def create(
    name: str,
    /,
    *,
    scope: Scopes = USUAL,
    days: int | None = None,
    forever: Forever = False,
    run: Bounds = (),
    folder: Bounds = (),
    session: Given,
) -> None:
    """Create a token, and show it once.

    Args:
        name: Who owns it; the audit trail shows this name.
        scope: What it may do: read, operate, answer, execute or admin; may be repeated.
        days: Days until it expires. Default: PERDURE_API_TOKEN_DAYS.
        forever: It never expires.
        run: Bind it to a run and the runs that it starts; may be repeated.
        folder: Bind it to runs whose workspace is this folder or below it; may be repeated.
    """
    if not 0 < len(name.strip()) <= NAME_CHARACTERS:
        raise InvalidInput(
            f"The name {name[:40]!r} cannot be used.",
            cure=f"Give 1 to {NAME_CHARACTERS} characters.",
        )
    made = Credentials(id=secrets.token_hex(4), secret=secrets.token_urlsafe(32))
    token = ApiToken(
        id=made.id,
        name=name.strip(),
        scopes=scopes_of(scope),
        digest=digest_of(made.secret),
        created_at=session.context.now(),
        expires_at=_expiry(session, days, forever=forever),
        folders=_folders(session, folder),
    )
    # Before anything is stored: execute and admin have effects beyond any run.
    if run or folder:
        require_bindable(token.scopes)
    async with session.connected() as services:
        # Whole ids: a beginning could fit another run later, which the token would then reach.
        runs = tuple([await services.gateway.resolve(one) for one in run])
        token = token.model_copy(update={"runs": runs})
        await services.access.add_token(token)
        await _noted(session, services, "token_made", token)
    told = _told(token) | {"type": "token", "token": made.text}
    session.output.show(made_view(token, made.text), told)


@token_app.command
async def rotate(
    token: TokenId,
    /,
    *,
    days: int | None = None,
    forever: Forever = False,
    overlap_hours: float = OVERLAP_HOURS,
    session: Given,
) -> None:
    """Give a token a new secret and lifetime, and show it once.

    Args:
        token: The id of the token, from `perdure api token list`.
        days: Days until it expires. Default: PERDURE_API_TOKEN_DAYS.
        forever: It never expires.
        overlap_hours: Hours that the old secret still works; use 0 after a leak.
    """
    if not 0 <= overlap_hours <= MOST_OVERLAP_HOURS:
        raise InvalidInput(
            f"--overlap-hours {overlap_hours:g} is out of range.",
            cure=f"Give 0 to {MOST_OVERLAP_HOURS}.",
        )
    expires_at, now = _expiry(session, days, forever=forever), session.context.now()
    # The id stays, as runs and the audit trail name the token by it.
    made = Credentials(id=token, secret=secrets.token_urlsafe(32))
    async with session.connected() as services:
        known = await services.access.token(token)
        if known is None:
            raise NotFound(
                f"There is no token {token!r}.",
                cure="`perdure api token list` shows what there is.",
            )
        if stands_for_person(token):
            raise NotAllowed(
                f"The token {token!r} stands for {known.name!r}, who signs in at the provider.",
                cure=f"To end their sessions and shut them out: perdure api token revoke {token}",
            )
        overlap = timedelta(hours=overlap_hours)
        new = known.rotated(made.secret, at=now, expires_at=expires_at, overlap=overlap)
        # In place of the secret that was read: of two rotations at once, one came late.
        if not await services.access.rotate_token(new, instead_of=known.digest):
            raise Conflict(
                f"The token {token!r} was rotated or revoked at the same moment.",
                cure="Look at `perdure api token list`, and use the secret of the other rotation.",
            )
        await _noted(session, services, "token_rotated", new)
    told = _told(new) | {"type": "token", "token": made.text}
    session.output.show(made_view(new, made.text), told)


@token_app.default
@token_app.command(name="list")
async def list_tokens(*, session: Given) -> None:
    """List all tokens, without their secrets."""
    async with session.connected() as services:
        tokens = await services.access.tokens()
    data = {"type": "tokens", "tokens": [_told(token) for token in tokens]}
    session.output.show(tokens_view(tokens, session.context.now()), data)


@token_app.command
async def revoke(token: TokenId, /, *, session: Given) -> None:
    """Revoke a token at once.

    Args:
        token: The id of the token, from `perdure api token list`.
    """
    async with session.connected() as services:
        if not await services.access.revoke_token(token, at=session.context.now()):
            raise NotFound(
                f"There is no token {token!r} that could be revoked.",
                cure="`perdure api token list` shows what there is.",
            )
        if (known := await services.access.token(token)) is not None:
            await _noted(session, services, "token_revoked", known)
    told = line(f"The token {token} opens nothing more.")
    session.output.show(told, {"type": "token_revoked", "revoked": token})


def _expiry(session: Given, days: int | None, *, forever: bool) -> datetime | None:
    """When a token with these options expires."""
    if days is not None and forever:
        raise InvalidInput("--days and --forever contradict each other.", cure="Give one of them.")
    if days is not None and not 0 < days <= MOST_DAYS:
        raise InvalidInput(
            f"--days {days} is out of range.", cure=f"Give 1 to {MOST_DAYS}, or --forever."
        )
    lasting = None if forever else days or session.context.token_days
    return None if lasting is None else session.context.now() + timedelta(days=lasting)


def _folders(session: Given, given: tuple[str, ...]) -> tuple[str, ...]:
    """The folders that a token is bound to: absolute, with links resolved."""
    found: list[str] = []
    for text in given:
        # The shell leaves the `~` of `--folder=~/work` as it is.
        folder = session.context.folder / os.path.expanduser(text)
        if not folder.is_dir() or "\n" in str(folder.resolve()):
            raise InvalidInput(
                f"--folder {text[:200]!r} is not a folder.",
                cure="Name one that exists on this host.",
            )
        # Resolved now: a link that is moved later must not move what the token reaches.
        found.append(str(folder.resolve()))
    return tuple(found)


async def _noted(session: Given, services: Services, action: Action, token: ApiToken) -> None:
    trail = AuditTrail(services.audit, now=session.context.now)
    await trail.note_token_change(action, token, by=session.context.user)


def _told(token: ApiToken) -> dict[str, object]:
    return token.model_dump(mode="json", exclude={"digest", "former_digest"})


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
