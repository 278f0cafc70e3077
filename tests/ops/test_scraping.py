"""What Prometheus reads: the jobs that the alerts ask for, and the pods of the manifests."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ops.test_kubernetes import OF_BUILDS, PODS, SETTINGS

OPS = Path(__file__).parents[2] / "ops"
PLAIN, IN_CLUSTER = OPS / "prometheus.yml", OPS / "prometheus-kubernetes.yml"
PROMTOOL = shutil.which("promtool")
ASKED_FOR = set(re.findall(r'job="([^"]+)"', (OPS / "alerts.yaml").read_text("utf-8")))


def jobs(file: Path) -> dict[str, dict[str, Any]]:
    return {
        job["job_name"]: job for job in yaml.safe_load(file.read_text("utf-8"))["scrape_configs"]
    }


def discovered(pod: dict[str, Any]) -> dict[str, str]:
    """What Prometheus knows of a running pod that was made from a template."""
    told = {"__meta_kubernetes_pod_phase": "Running", "__meta_kubernetes_pod_ip": "10.1.2.3"}
    for kind in ("label", "annotation"):
        for name, value in pod["metadata"].get(f"{kind}s", {}).items():
            told[f"__meta_kubernetes_pod_{kind}_{re.sub(r'[^a-zA-Z0-9_]', '_', name)}"] = value
    return told


def relabelled(rules: list[dict[str, Any]], labels: dict[str, str]) -> dict[str, str] | None:
    """The labels after the rules, as Prometheus applies them; None where the target is dropped."""
    for rule in rules:
        joined = rule.get("separator", ";").join(
            labels.get(one, "") for one in rule["source_labels"]
        )
        found = re.fullmatch(str(rule.get("regex", "(.*)")), joined)
        action = rule.get("action", "replace")
        if (found is None) == (action == "keep") and action != "replace":
            return None
        if action == "replace" and found is not None:
            labels = labels | {rule["target_label"]: found[1]}
    return labels


@pytest.mark.parametrize("file", [PLAIN, IN_CLUSTER], ids=lambda file: file.name)
def test_every_job_that_an_alert_names_is_read(file: Path) -> None:
    assert jobs(file).keys() == ASKED_FOR == {"perdure-api", "perdure-worker"}


def test_each_pod_is_read_under_its_job_at_its_port() -> None:
    builds = {
        name: one["spec"]["template"]
        for name, one in OF_BUILDS.items()
        if one["kind"] == "Deployment"
    }
    found = {
        (job, name, labels["__address__"])
        for job, config in jobs(IN_CLUSTER).items()
        for name, pod in (PODS | builds).items()
        if (labels := relabelled(config["relabel_configs"], discovered(pod))) is not None
    }
    worker = SETTINGS["PERDURE_METRICS_ADDRESS"].rpartition(":")[2]
    assert found == {
        ("perdure-api", "Deployment perdure-api", "10.1.2.3:8237"),
        ("perdure-worker", "Deployment perdure-worker", f"10.1.2.3:{worker}"),
        *(("perdure-worker", name, f"10.1.2.3:{worker}") for name in builds),
    }


def test_a_pod_that_is_gone_is_no_target() -> None:
    (config, _) = jobs(IN_CLUSTER).values()
    gone = discovered(PODS["Deployment perdure-api"]) | {"__meta_kubernetes_pod_phase": "Failed"}
    assert relabelled(config["relabel_configs"], gone) is None


def test_targets_differ_by_their_instance_alone() -> None:
    kept = {
        rule["target_label"]
        for config in jobs(IN_CLUSTER).values()
        for rule in config["relabel_configs"]
        if "target_label" in rule
    }
    assert kept == {"__address__"}


@pytest.mark.skipif(PROMTOOL is None, reason="there is no promtool on PATH: make prometheus-setup")
@pytest.mark.parametrize("file", [PLAIN, IN_CLUSTER], ids=lambda file: file.name)
def test_prometheus_takes_the_configuration(file: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(file.read_text("utf-8"))
    for job in config["scrape_configs"]:
        # Debian's build has no discovery in clusters: the rest is what it can say.
        if job.pop("kubernetes_sd_configs", None) is not None:
            job["static_configs"] = [{"targets": ["10.1.2.3:8237"]}]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    assert PROMTOOL is not None
    told = subprocess.run(
        [PROMTOOL, "check", "config", "--syntax-only", str(tmp_path / "prometheus.yml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
