"""The services for people: a live table, and a banner with their addresses."""

from rich.table import Table
from rich.text import Text

from perdure.domain.ports import Endpoints
from perdure.local_services.state import PartState, PartStatus, RuntimeState

_STYLES: dict[PartStatus, str] = {
    "starting": "yellow",
    "running": "green",
    "restarting": "yellow",
    "failed": "red",
    "stopped": "dim",
}


def render(state: RuntimeState) -> Table:
    """The services as a table, one row each."""
    table = Table(title=f"Perdure services: {state.status}", title_justify="left")
    for column in ("service", "status", "where", "pid", "restarts", "note"):
        table.add_column(column)
    for part in state.parts:
        table.add_row(
            part.name,
            Text(part.status, style=_STYLES[part.status]),
            _where(part, state.endpoints),
            str(part.process.pid) if part.process else "",
            str(part.restarts or ""),
            part.detail,
        )
    return table


def banner(endpoints: Endpoints) -> str:
    """Lines for a terminal: all addresses, and the folder with the data."""
    rows = [
        ("Temporal", f"{endpoints.temporal_address} (namespace {endpoints.namespace})"),
        ("Web UI", endpoints.ui_url),
        ("local model", endpoints.model_url),
        ("REST API", endpoints.api_url),
        ("page", endpoints.api_url and f"{endpoints.api_url}  (sign in: perdure open)"),
        ("data, logs", endpoints.home),
    ]
    return "\n".join(f"  {name:<12} {value}" for name, value in rows if value)


def _where(part: PartState, endpoints: Endpoints) -> str:
    if part.name == "temporal":
        return f"{endpoints.temporal_address}, UI {endpoints.ui_url}"
    return f"127.0.0.1:{part.port}" if part.port else ""
