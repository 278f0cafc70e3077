"""The audit trail at the command line."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, get_args

from cyclopts import Parameter
from rich.console import RenderableType
from rich.text import Text

from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.foundation.problems import did_you_mean
from perdure.domain.run.audit import Action, AuditEntry, AuditFilter, Outcome
from perdure.interfaces.cli.commands.parameters import MOST_LISTED, Given, Limit
from perdure.interfaces.cli.commands.patterns import interval_of
from perdure.interfaces.cli.views.layout import BAD, GOOD, WARN, line, table
from perdure.interfaces.formatting import ago, one_line

_STYLES = {"allowed": GOOD, "refused": BAD, "asked": WARN}


def audit_view(entries: Sequence[AuditEntry], now: datetime) -> RenderableType:
    """One row for each entry, the newest first."""
    if not entries:
        return line("Nothing is written down that fits.")
    rows = [
        (ago(entry.last_at, now), entry.action.replace("_", " "),
         Text(entry.outcome, style=_STYLES[entry.outcome]), one_line(entry.who),
         entry.run or "", _about(entry))
        for entry in entries
    ]  # fmt: skip
    return table(("when", "what", "end", "who", "run", "about"), rows, whole=("run",))


def _about(entry: AuditEntry) -> str:
    often = f" ({entry.count:,} times)" if entry.count > 1 else ""
    return one_line(entry.about) + often


ACTIONS: tuple[Action, ...] = get_args(Action)
USUAL = 100
LONGEST = timedelta(days=36_500)


async def audit(
    *,
    run: str | None = None,
    who: str | None = None,
    action: str | None = None,
    outcome: Annotated[Outcome | None, Parameter(show_choices=True)] = None,
    since: str | None = None,
    limit: Limit | None = None,
    jsonl: bool = False,
    session: Given,
) -> None:
    """Show who requested what of runs and tokens, when, and whether it was allowed.

    Args:
        run: Only requests to this run.
        who: Only requests of this caller, as the list shows it.
        action: Only one action, such as start, answer, token_made or run_erased; a name that is
            none of them is answered with all.
        outcome: Only allowed or refused requests, or asked ones (the outcome is unknown).
        since: Only after a day or moment (2026-01-31, 2026-01-31T12:00Z), or the last days, hours
            or minutes (7d, 12h, 30m).
        limit: Most entries, newest first [100; with --jsonl all].
        jsonl: Print each entry as a line of JSON, the oldest first, to keep them elsewhere.
    """
    chosen = None if action is None else _action(action)
    # Whoever keeps the lines elsewhere wants all of them, and would not notice a limit.
    most = limit if limit is not None else MOST_LISTED if jsonl else USUAL
    after = None if since is None else _since(since, session.context.now())
    async with session.connected() as services:
        whole = None if run is None else await services.gateway.resolve(run)
        wanted = AuditFilter(
            action=chosen, outcome=outcome, run=whole, who=who, since=after, limit=most
        )
        entries = await services.audit.entries(wanted)
    if jsonl:
        session.output.go_on("".join(f"{entry.model_dump_json()}\n" for entry in entries[::-1]))
        return
    data = {"type": "audit", "entries": [entry.model_dump(mode="json") for entry in entries]}
    session.output.show(audit_view(entries, session.context.now()), data)


def _since(text: str, now: datetime) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        ago = interval_of(text, "--since")
        return now - min(ago, LONGEST)
    # In UTC, so that the same words mean the same on every host.
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _action(name: str) -> Action:
    for action in ACTIONS:
        if action == name.replace("-", "_"):
            return action
    hint = did_you_mean(name, ACTIONS)
    raise InvalidInput(
        f"--action {name!r} is not an action of the audit trail.{hint}",
        cure=f"One of: {', '.join(ACTIONS)}.",
    )
