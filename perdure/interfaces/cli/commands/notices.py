"""Notices to people: list them with their state, and send again those that no channel took."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from cyclopts import App, Parameter
from rich.console import RenderableType
from rich.text import Text

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.run.notices import Notice, NoticeState
from perdure.interfaces.cli.commands.parameters import Given, Limit
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, WARN, line, table
from perdure.interfaces.formatting import ago, one_line
from perdure.interfaces.notices import send_again

NoticeIds = Annotated[tuple[str, ...], Parameter(name="ID", negative=())]
_STYLES = {"delivered": GOOD, "dead": BAD, "waiting": WARN, "dropped": DIM}
notices_app = App(
    name="notices",
    help="Show the notices that people were sent, and send again what no channel took.",
    version_flags=(),
)


@notices_app.default
@notices_app.command(name="list")
async def list_notices(
    *, state: NoticeState | None = None, limit: Limit = 100, session: Given
) -> None:
    """List notices, the newest first.

    Args:
        state: Only those that wait to be tried again, were delivered, are dead, or were dropped.
        limit: Most notices.
    """
    async with session.connected() as services:
        found = await services.notices().notices(state, limit=limit)
    data = {"type": "notices", "notices": [one.model_dump(mode="json") for one in found]}
    session.output.show(_view(found, session.context.now()), data)


@notices_app.command
async def resend(ids: NoticeIds = (), /, *, dead: bool = False, session: Given) -> None:
    """Have notices sent again, by the next worker that has a channel.

    Args:
        ids: Notices by id, or a unique beginning of one.
        dead: All that no channel took.
    """
    if bool(ids) == dead:
        raise InvalidInput(
            "Say which notices are meant.", cure="Give their ids, or --dead for all dead ones."
        )
    async with session.connected() as services:
        sent = await send_again(
            services, ids or None, by=session.context.user, now=session.context.now()
        )
    data = {"type": "notices", "notices": [one.model_dump(mode="json") for one in sent]}
    told = ", ".join(one.id for one in sent) or "nothing"
    session.output.show(line(("✓ ", GOOD), f"sent again: {told}"), data)


def _view(found: Sequence[Notice], now: datetime) -> RenderableType:
    if not found:
        return line("No notices.")
    rows = [
        (one.id, Text(one.state, style=_STYLES[one.state]), one.run, one.gate,
         ago(one.made_at, now), str(one.attempts), one_line(one.problem or ""))
        for one in found
    ]  # fmt: skip
    heads = ("id", "state", "run", "gate", "made", "attempts", "problem")
    return table(heads, rows, whole=("id", "run"))
