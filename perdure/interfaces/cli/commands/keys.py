"""Encryption keys: list what needs each, encrypt again with the current key, retire old ones."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import Group, RenderableType
from rich.text import Text

from perdure.domain.installation.encryption_keys import KeyUse
from perdure.interfaces.cli.commands.parameters import Given
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, WARN, line, table
from perdure.interfaces.formatting import plural

NAMED = 5
KeyId = Annotated[str, Parameter(name="KEY")]
keys_app = App(
    name="keys",
    help="Rotate the encryption keys: what needs each, encrypting again, retiring.",
    version_flags=(),
)


@keys_app.default
@keys_app.command(name="list")
async def list_keys(*, session: Given) -> None:
    """List the encryption keys by id, with what cannot be read without each."""
    with session.output.working("looking at rows, blobs and histories"):
        uses = await session.context.keys.uses()
    data = {"type": "keys", "keys": [use.model_dump(mode="json") for use in uses]}
    session.output.show(_view(uses), data)


@keys_app.command
async def rewrap(*, session: Given) -> None:
    """Encrypt rows and blobs of older keys again with the current one.

    Runs may go on meanwhile. Broken off, it is started again and does the rest. Histories stay as
    they are, and go with the server's retention.
    """
    with session.output.working("encrypting again"):
        done = await session.context.keys.rewrap()
    async with session.connected() as services:
        about = f"{plural(done.rows, 'row')}, {plural(done.blobs, 'blob')}"
        await session.note_decision(services, "keys_rewrapped", about)
    told = [line(("✓ ", GOOD), f"encrypted again: {about}")]
    if done.unreadable:
        named = ", ".join(done.unreadable[:NAMED]) + (" …" if len(done.unreadable) > NAMED else "")
        told.append(
            line(
                ("! ", WARN),
                f"{plural(len(done.unreadable), 'row')} could not be read, and are searched by "
                f"an older key: {named}. Rewrap with the version that wrote them.",
            )
        )
    session.output.show(Group(*told), done)


@keys_app.command
async def retire(key: KeyId, /, *, lost: bool = False, session: Given) -> None:
    """Say that an old key is not needed any more, so that no setting has to name it.

    It is refused as long as something needs the key.

    Args:
        key: The id of the key, from `perdure keys`.
        lost: The key is gone, and so is what it encrypted.
    """
    with session.output.working("looking at rows, blobs and histories"):
        use = await session.context.keys.retire(key, lost)
    async with session.connected() as services:
        await session.note_decision(
            services, "key_retired", f"key {key}{' as lost' if lost else ''}"
        )
    told = f"{key} is retired: take it out of PERDURE_ENCRYPTION_OLD_KEYS."
    session.output.show(line(("✓ ", GOOD), told), use)


def _view(uses: Sequence[KeyUse]) -> RenderableType:
    rows = [(use.id, _state(use), use.needs) for use in uses]
    return table(("key", "state", "needed by"), rows, whole=("key",))


def _state(use: KeyUse) -> Text:
    if use.current:
        return Text("current", style=GOOD)
    if use.retired_at is not None:
        return Text("retired", style=DIM)
    return Text("old") if use.configured else Text("missing", style=BAD)
