"""The audit trail as a table."""

from collections.abc import Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.audit import AuditEntry
from perdure.interfaces.cli.views.layout import BAD, GOOD, WARN, line, table
from perdure.interfaces.cli.views.wording import ago, one_line

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
