"""Lists of checked things: `doctor`, replayed histories, collected blobs, services."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from perdure.domain.ports import Endpoints
from perdure.interfaces.cli.chaos import ChaosReport
from perdure.interfaces.cli.views.layout import BAD, DIM, GOOD, WARN, line, pairs, stack, table
from perdure.interfaces.formatting import one_line, plural
from perdure.interfaces.services import Check, Collected, Replayed, RuntimeView

_MARKS = {"ok": ("✓", GOOD), "warning": ("!", WARN), "failed": ("✗", BAD)}
_STATUS_STYLES = {"running": GOOD, "ready": GOOD, "failed": BAD, "stopped": DIM}


def doctor_view(checks: Sequence[Check]) -> RenderableType:
    """All checks with their results, then what to do."""
    rows = [(Text(*_MARKS[check.state]), check.name, check.found) for check in checks]
    cures = [
        line(("→ ", "cyan"), f"{check.name}: {check.cure}")
        for check in checks
        if check.cure and check.state != "ok"
    ]
    return stack(table(("", "check", "found"), rows), *cures, _verdict(checks))


def replay_view(replays: Sequence[Replayed]) -> RenderableType:
    """All histories, and whether this code still decides as recorded."""
    rows = [
        (
            Text(*_MARKS["ok" if item.problem is None else "failed"]),
            item.source,
            plural(item.events, "event"),
            one_line(item.problem or "same decisions", 300),
        )
        for item in replays
    ]
    return table(("", "history", "size", "replayed"), rows)


def collected_view(collected: Collected) -> Text:
    """What was deleted, and which runs could not be."""
    verb = "would drop" if collected.dry_run else "dropped"
    size = f"{collected.bytes / 1024 / 1024:.1f} MiB"
    calls = "would book" if collected.dry_run else "booked"
    lost = f"; {calls} {plural(collected.calls, 'call')} as lost" if collected.calls else ""
    ended = f"; noted {plural(collected.ended, 'run')} as ended" if collected.ended else ""
    runs = f"{plural(collected.runs, 'run')} and " if collected.runs else ""
    blobs = f"{plural(collected.blobs, 'blob')} ({size})"
    told = f"{verb} {runs}{blobs}, kept {collected.kept:,}{lost}{ended}"
    for one in collected.left_runs:
        told += f"\nleft {one.run} alone: {one_line(one.why, 200)}"
    if more := collected.left - len(collected.left_runs):
        told += f"\nleft {plural(more, 'other run')} alone"
    return line(told)


def services_view(state: RuntimeView) -> RenderableType:
    """The embedded services, one row each, with their addresses."""
    rows = [
        (
            part.name,
            Text(part.status, style=_STATUS_STYLES.get(part.status, WARN)),
            str(part.port or ""),
            str(part.restarts or ""),
            one_line(part.detail),
        )
        for part in state.parts
    ]
    columns = ("service", "status", "port", "restarts", "note")
    return stack(table(columns, rows), endpoints_view(state.endpoints))


def endpoints_view(endpoints: Endpoints) -> RenderableType:
    """The addresses of an installation, and its folder."""
    return pairs(
        [
            ("Temporal", f"{endpoints.temporal_address} (namespace {endpoints.namespace})"),
            ("Web UI", endpoints.ui_url),
            ("model", endpoints.model_url),
            ("REST API", endpoints.api_url),
            (
                "page",
                f"{endpoints.api_url}  (sign in: perdure open)" if endpoints.api_url else None,
            ),
            ("folder", endpoints.home),
        ]
    )


def _verdict(checks: Sequence[Check]) -> Text:
    failed = sum(check.state == "failed" for check in checks)
    warned = sum(check.state == "warning" for check in checks)
    if failed:
        return line((f"{plural(failed, 'problem')} to mend", BAD))
    if warned:
        return line((f"usable, with {plural(warned, 'warning')}", WARN))
    return line(("all is well", GOOD))


def _kept(report: ChaosReport) -> str:
    """What was kept, without hiding what the kill cost."""
    match report.made_again:
        case 0:
            return "✓ nothing was lost"
        case 1:
            return "✓ no reply was lost; the call in flight died, and was made again"
        case many:
            return f"✓ no reply was lost; {many} calls in flight died, and were made again"


def chaos_view(report: ChaosReport) -> RenderableType:
    """What killing the worker cost."""
    fine = report.nothing_lost
    mark = (_kept(report), GOOD) if fine else ("✗ something was lost", BAD)
    rows = [
        ("killed", f"{report.killed.name} (process {report.killed.pid})"),
        ("back after", f"{report.back_after_s} s"),
        ("replies from before", f"{report.kept} of {report.answered_before} still count"),
        ("paid for again", str(report.paid_again)),
        ("attempts that died", f"{report.lost_attempts}, booked at their estimate"),
        ("ended", report.outcome.replace("_", " ")),
    ]
    return stack(line(mark), pairs(rows))
