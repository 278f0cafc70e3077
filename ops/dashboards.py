"""Write the dashboards of ops/grafana: `python -P ops/dashboards.py`.

Every panel is one line below. Grafana asks at the import which data source is Prometheus.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

FOLDER = Path(__file__).parent / "grafana"
WIDTH, HEIGHT, COLUMNS = 12, 8, 24
SOURCE: dict[str, JsonValue] = {"type": "prometheus", "uid": "${source}"}
# Several APIs tell the same of one installation.
ONE = "max without (instance)"


@dataclass(frozen=True)
class Panel:
    """A graph, or with `now` a number; `queries` are PromQL by their legend."""

    title: str
    unit: str
    queries: dict[str, str]
    now: bool = False


def rate(metric: str, by: str, where: str = "") -> str:
    """Of what workers count."""
    return f"sum by ({by}) (rate({metric}{where}[$__rate_interval]))"


def grown(metric: str, by: str) -> str:
    """Of what the API tells: how fast it grows."""
    return f"sum by ({by}) (rate({ONE} ({metric})[10m:1m]))"


def quantile(share: float, metric: str, by: str) -> str:
    """How long it takes: so many are done within."""
    return f"histogram_quantile({share}, {rate(f'{metric}_bucket', f'{by}, le')})"


def ended(window: str, step: str) -> str:
    """Runs that ended within a window."""
    return f"increase({ONE} (perdure_run_ends_total)[{window}:{step}])"


CALLS = "perdure_model_call_seconds"
DAY = "1d", "10m"
OPEN = f'{ONE} (perdure_runs{{outcome=""}})'
SPENT = f"{ONE} (perdure_model_cost_usd_total)"
READ = 'perdure_model_tokens_total{type="cache_read"}'
PROMPT = 'perdure_model_tokens_total{type=~"input|cache_read"}'
# As in the rule PerdureModelCallsFail.
NO_FAILURE = "replied|does_not_fit|interrupted|sealed"
BROKEN = rate(f"{CALLS}_count", "model", f'{{status!~"{NO_FAILURE}"}}')
REWORK = rate("perdure_verdicts_total", "verdict", '{rework="true"}')
STEPS = quantile(0.95, "temporal_activity_execution_latency_seconds", "activity_type")
STORE_UP = f'{ONE} (perdure_part_up{{part="store"}})'

FLEET = (
    Panel("Open runs", "short", {"{{kind}} {{lifecycle}}": f"sum by (kind, lifecycle) ({OPEN})"}),
    Panel(
        "Runs that ended, per hour",
        "short",
        {"{{outcome}}": f"sum by (outcome) ({ended('1h', '1m')})"},
    ),
    Panel("Wait for a person", "short", {"runs": f"{ONE} (perdure_runs_waiting)"}, now=True),
    Panel("Code keeps failing", "short", {"runs": f"{ONE} (perdure_runs_failing)"}, now=True),
    Panel("Wait for a lost build", "short", {"runs": f"{ONE} (perdure_runs_stranded)"}, now=True),
    Panel("Notices given up", "short", {"notices": f"{ONE} (perdure_notices_dead)"}, now=True),
    Panel(
        "Starts refused within a day",
        "short",
        {"{{schedule}}": f"{ONE} (perdure_schedule_starts_refused)"},
    ),
    Panel(
        "Starts that came too late",
        "short",
        {"{{schedule}}": f"increase({ONE} (perdure_schedule_starts_missed_total)[1d:10m])"},
    ),
    Panel("Collections fail", "bool", {"failing": f"{ONE} (perdure_collection_failing)"}, now=True),
    Panel(
        "Collections overdue",
        "s",
        {"overdue": f"{ONE} (perdure_collection_overdue_seconds)"},
        now=True,
    ),
    Panel("Tasks that wait for a worker", "short", {"{{queue}}": f"{ONE} (perdure_queue_backlog)"}),
    Panel("Oldest such task", "s", {"{{queue}}": f"{ONE} (perdure_queue_backlog_age_seconds)"}),
    Panel("Workers that fetch", "short", {"{{queue}}": f"{ONE} (perdure_queue_pollers)"}),
    Panel("Parts that answer", "bool", {"{{part}}": f"{ONE} (perdure_part_up)"}),
    Panel("Steps, 95 of 100 within", "s", {"{{activity_type}}": STEPS}),
    Panel(
        "Slots of workers in use",
        "short",
        {"{{worker_type}}": "sum by (worker_type) (temporal_worker_task_slots_used)"},
    ),
)
COST = (
    Panel(
        "USD per hour by model",
        "currencyUSD",
        {"{{model}}": f"3600 * {grown('perdure_model_cost_usd_total', 'model')}"},
    ),
    Panel(
        "USD per hour by phase",
        "currencyUSD",
        {"{{phase}}": f"3600 * {grown('perdure_phase_cost_usd_total', 'phase')}"},
    ),
    Panel("USD in all", "currencyUSD", {"all": f"sum({SPENT})"}, now=True),
    Panel(
        "USD per run that ended, last day",
        "currencyUSD",
        {"all": f"sum(increase({SPENT}[1d:10m])) / sum({ended(*DAY)})"},
        now=True,
    ),
    Panel("Tokens by type", "short", {"{{type}}": grown("perdure_model_tokens_total", "type")}),
    Panel("Tokens by phase", "short", {"{{phase}}": grown("perdure_phase_tokens_total", "phase")}),
    Panel(
        "Share of the prompt read from a cache",
        "percentunit",
        {"{{model}}": f"{grown(READ, 'model')} / {grown(PROMPT, 'model')}"},
    ),
    Panel(
        "Calls booked at an estimate",
        "short",
        {"{{model}}": grown("perdure_model_calls_unconfirmed_total", "model")},
    ),
    Panel(
        "Lost calls that may yet report",
        "short",
        {"{{model}}": f"{ONE} (perdure_model_calls_unsettled)"},
    ),
    Panel(
        "USD at which they are estimated",
        "currencyUSD",
        {"{{model}}": f"{ONE} (perdure_model_cost_unsettled_usd)"},
    ),
)
QUALITY = (
    Panel(
        "Ends by outcome, share of the last day",
        "percentunit",
        {"{{outcome}}": f"sum by (outcome) ({ended(*DAY)}) / scalar(sum({ended(*DAY)}))"},
    ),
    Panel(
        "Decisions after an evaluation",
        "short",
        {"{{kind}} {{decision}}": rate("perdure_decisions_total", "kind, decision")},
    ),
    Panel("Verdicts", "short", {"{{verdict}}": rate("perdure_verdicts_total", "verdict")}),
    Panel("Rejections for the same findings", "short", {"{{verdict}}": REWORK}),
    Panel(
        "Stages that ended",
        "short",
        {"{{role}} {{status}}": rate("perdure_stages_total", "role, status")},
    ),
    Panel(
        "Answers of people, half within",
        "s",
        {"{{kind}}": quantile(0.5, "perdure_gate_wait_seconds", "kind")},
    ),
    Panel(
        "Tools that were made", "short", {"{{event}}": rate("perdure_made_tools_total", "event")}
    ),
    Panel(
        "Tool calls by outcome",
        "short",
        {"{{outcome}}": rate("perdure_tool_calls_total", "outcome")},
    ),
)
PROVIDERS = (
    Panel(
        "Attempts by end",
        "short",
        {"{{model}} {{status}}": rate(f"{CALLS}_count", "model, status")},
    ),
    Panel(
        "Share that fails",
        "percentunit",
        {"{{model}}": f"{BROKEN} / {rate(f'{CALLS}_count', 'model')}"},
    ),
    Panel("Duration, half within", "s", {"{{model}}": quantile(0.5, CALLS, "model")}),
    Panel("Duration, 95 of 100 within", "s", {"{{model}}": quantile(0.95, CALLS, "model")}),
    Panel("Tokens", "short", {"{{model}} {{type}}": rate("perdure_tokens_total", "model, type")}),
    Panel(
        "USD per hour",
        "currencyUSD",
        {"{{model}}": f"3600 * {rate('perdure_cost_usd_total', 'model')}"},
    ),
    Panel(
        "Calls in the journal", "short", {"{{model}}": grown("perdure_model_calls_total", "model")}
    ),
    Panel("Calls by phase", "short", {"{{phase}}": grown("perdure_phase_calls_total", "phase")}),
)
STORES = (
    Panel("Size by table", "bytes", {"{{table}}": f"{ONE} (perdure_store_bytes)"}),
    Panel("Growth in a day", "bytes", {"{{table}}": f"delta({ONE} (perdure_store_bytes)[1d:10m])"}),
    Panel("Size of all", "bytes", {"all": f"sum({ONE} (perdure_store_bytes))"}, now=True),
    Panel("Runs kept", "short", {"{{kind}}": f"sum by (kind) ({ONE} (perdure_runs))"}, now=True),
    Panel("Store answers", "bool", {"store": STORE_UP}),
    Panel("A scrape takes", "s", {"{{job}}": 'scrape_duration_seconds{job=~"perdure.*"}'}),
)
DASHBOARDS = {
    "fleet": FLEET,
    "cost": COST,
    "quality": QUALITY,
    "providers": PROVIDERS,
    "stores": STORES,
}


def dashboard(name: str, panels: tuple[Panel, ...]) -> dict[str, JsonValue]:
    """As Grafana 10 and later import it."""
    return {
        "__inputs": [],
        "__requires": [{"type": "datasource", "id": "prometheus", "name": "Prometheus"}],
        "uid": f"perdure-{name}",
        "title": f"Perdure: {name}",
        "tags": ["perdure"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "source",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                }
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel) -> dict[str, JsonValue]:
    place = number * WIDTH
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "stat" if panel.now else "timeseries",
        "datasource": SOURCE,
        "gridPos": {"x": place % COLUMNS, "y": place // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": query,
                "legendFormat": legend,
            }
            for index, (legend, query) in enumerate(panel.queries.items())
        ],
    }


def rendered() -> dict[Path, str]:
    """The text of each file."""
    return {
        FOLDER / f"{name}.json": json.dumps(dashboard(name, panels), indent=1) + "\n"
        for name, panels in DASHBOARDS.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in rendered().items():
        path.write_text(text, encoding="utf-8")
