"""The REST API: serve it, and make, list and revoke the tokens that open it."""

import secrets
from datetime import timedelta
from typing import Annotated

from cyclopts import App, Group, Parameter

from perdure.domain.access import NAME_CHARACTERS, ApiToken, Credentials, digest_of, scopes_of
from perdure.domain.errors import InvalidInput, NotFound
from perdure.interfaces.cli.commands.given import Given
from perdure.interfaces.cli.views.layout import DIM, line
from perdure.interfaces.cli.views.tokens import made_view, tokens_view

USUAL = ("read", "operate", "answer")
Scopes = Annotated[tuple[str, ...], Parameter(name="--scope", negative="")]


def api_commands(group: Group) -> App:
    """`api serve`, `api token create`, `list`, `revoke`; alone it serves."""
    app = App(name="api", help="Runs over HTTP: the REST API.", group=group, version_flags=())
    app.default(serve)
    app.command(serve)
    token = App(name="token", help="Who may use the REST API.", version_flags=())
    token.default(list_tokens)
    token.command(create)
    token.command(list_tokens, name="list")
    token.command(revoke)
    app.command(token)
    return app


async def serve(*, host: str | None = None, port: int | None = None, session: Given) -> None:
    """Answer over HTTP in the foreground; `perdure up` starts it by itself.

    Args:
        host: Where to listen; left out: PERDURE_API_HOST, this machine only.
        port: Likewise; left out: PERDURE_API_PORT; 0 takes a free one.
    """

    def tell(url: str) -> None:
        session.output.show(line(f"REST API: {url}"), {"type": "api", "url": url})
        session.output.note("Tokens: perdure api token create NAME. Ctrl-C ends it.", style=DIM)

    await session.context.run_api(host=host, port=port, on_ready=tell)


async def create(
    name: str, /, *, scope: Scopes = USUAL, days: int | None = None, session: Given
) -> None:
    """Make a token, and show it this once.

    Args:
        name: Whose it is; audit trails show it.
        scope: What it may do: read, operate, answer, execute, admin; may be repeated; left out:
            read, operate and answer.
        days: After how many days it ends; left out: never.
    """
    if not 0 < len(name.strip()) <= NAME_CHARACTERS:
        raise InvalidInput(
            f"The name {name[:40]!r} cannot be used.", cure=f"Give 1 to {NAME_CHARACTERS} letters."
        )
    if days is not None and days < 1:
        raise InvalidInput(f"--days {days}: found no future.", cure="Give 1 or more.")
    made = Credentials(id=secrets.token_hex(4), secret=secrets.token_urlsafe(32))
    now = session.context.now()
    token = ApiToken(
        id=made.id,
        name=name.strip(),
        scopes=scopes_of(scope),
        digest=digest_of(made.secret),
        created_at=now,
        expires_at=None if days is None else now + timedelta(days=days),
    )
    async with session.connected() as services:
        await services.access.add_token(token)
    told = _told(token) | {"type": "token", "token": made.text}
    session.output.show(made_view(token, made.text), told)


async def list_tokens(*, session: Given) -> None:
    """All tokens, without what would open anything."""
    async with session.connected() as services:
        tokens = await services.access.tokens()
    data = {"type": "tokens", "tokens": [_told(token) for token in tokens]}
    session.output.show(tokens_view(tokens, session.context.now()), data)


async def revoke(token: Annotated[str, Parameter(name="ID")], /, *, session: Given) -> None:
    """Make a token useless at once.

    Args:
        token: Its id, as `perdure api token list` shows it.
    """
    async with session.connected() as services:
        if not await services.access.revoke_token(token, at=session.context.now()):
            raise NotFound(
                f"There is no token {token!r} that could be revoked.",
                cure="`perdure api token list` shows what there is.",
            )
    session.output.show(line(f"The token {token} opens nothing more."), {"revoked": token})


def _told(token: ApiToken) -> dict[str, object]:
    return token.model_dump(mode="json", exclude={"digest"})
