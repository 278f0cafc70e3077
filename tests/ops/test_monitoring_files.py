"""Dashboards and alerts: metrics that exist, and a paragraph for each alert."""

import json
import re
import runpy
from pathlib import Path

import pytest
import yaml

from perdure.domain.run.metrics import METRICS

ROOT = Path(__file__).parents[2]
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "ops/alerts.yaml").read_text("utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARDS = sorted((ROOT / "ops/grafana").glob("*.json"))
MONITORING = (ROOT / "docs/monitoring.md").read_text("utf-8")
# Of Temporal's core; tests/adapters/telemetry/test_start.py sees them served.
CORE = {"temporal_activity_execution_latency_seconds_bucket", "temporal_worker_task_slots_used"}
ENDS = {"counter": (), "gauge": (), "histogram": ("_bucket", "_sum", "_count")}
KNOWN = {f"{metric.in_prometheus}{end}" for metric in METRICS for end in ENDS[metric.kind] or ("",)}
KNOWN |= CORE


def labels_of(name: str) -> set[str]:
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return {one for metric in METRICS if metric.in_prometheus == base for one in metric.labels}


def queries(dashboard: Path) -> list[str]:
    panels = json.loads(dashboard.read_text("utf-8"))["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


ALL = [
    *(pytest.param(rule["expr"], id=rule["alert"]) for rule in RULES),
    *(
        pytest.param(query, id=f"{path.stem} {number}")
        for path in DASHBOARDS
        for number, query in enumerate(queries(path))
    ),
]


@pytest.mark.parametrize("query", ALL)
def test_only_metrics_and_labels_that_exist_are_asked_for(query: str) -> None:
    named = set(re.findall(r"\b(?:perdure|temporal)_\w+", query))
    assert named <= KNOWN
    for name, chosen in re.findall(r"\b(perdure_\w+)\{([^}]*)\}", query):
        assert set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", chosen)) <= labels_of(name)


def test_every_metric_of_ours_is_on_a_dashboard() -> None:
    shown = " ".join(query for path in DASHBOARDS for query in queries(path))
    assert [metric.name for metric in METRICS if metric.in_prometheus not in shown] == []


def test_the_dashboards_are_those_of_the_script() -> None:
    made = runpy.run_path(str(ROOT / "ops/dashboards.py"))["rendered"]()
    assert {path: path.read_text("utf-8") for path in DASHBOARDS} == made
    assert [path.stem for path in DASHBOARDS] == ["cost", "fleet", "providers", "quality", "stores"]


def test_dashboard_and_alert_agree_on_the_calls_that_fail() -> None:
    spared = {
        found
        for query in (rule["expr"] for rule in RULES if rule["alert"] == "PerdureModelCallsFail")
        for found in re.findall(r'status!~"([^"]+)"', query)
    }
    (providers,) = (path for path in DASHBOARDS if path.stem == "providers")
    shown = {found for query in queries(providers) for found in re.findall(r"status!.*?}", query)}
    assert shown == {f'status!~"{one}"}}' for one in spared}
    assert "interrupted" in "".join(spared)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_paragraph_that_it_names(rule: dict[str, dict[str, str]]) -> None:
    name = str(rule["alert"])
    assert rule["annotations"]["runbook"] == f"docs/monitoring.md#{name.lower()}"
    paragraph = re.search(
        rf"^### {name}\n\n(.+?)(?:\n\n|\n*\Z)", MONITORING, re.DOTALL | re.MULTILINE
    )
    assert paragraph is not None
    assert len(paragraph[1].split()) >= 20
    assert rule["labels"]["severity"] in {"page", "ticket", "info"}
