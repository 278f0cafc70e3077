"""The manifests of ops/kubernetes: by the schemas of Kubernetes, and what they promise of pods.

No cluster and no kustomize are assumed: what is checked is each document as it stands.
"""

import ipaddress
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from perdure.adapters.settings.variables import Settings
from perdure.domain.run.metrics import METRICS

FOLDER = Path(__file__).parents[2] / "ops" / "kubernetes"
OLDEST, NEWEST = "1.31.0", "1.37.0"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yaml").read_text("utf-8"))
STANDARD = {
    "TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "ANTHROPIC_API_KEY",
}  # fmt: skip


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in (*KUSTOMIZATION["resources"], "secret.example.yaml"):
        for document in yaml.safe_load_all((FOLDER / name).read_text("utf-8")):
            yield f"{document['kind']} {document['metadata']['name']}", document


ALL = dict(documents())
VERSIONS = FOLDER.parent / "kubernetes-versions"
BUILDS = yaml.safe_load((VERSIONS / "kustomization.yaml").read_text("utf-8"))
OF_BUILDS = {
    f"{one['kind']} {one['metadata']['name']}": one
    for name in BUILDS["resources"][1:]
    for one in yaml.safe_load_all((VERSIONS / name).read_text("utf-8"))
}
PODS = {
    name: found["spec"]["template"]
    for name, found in ALL.items()
    if found["kind"] in {"Deployment", "Job"}
}
SETTINGS = dict(line.split("=", 1) for line in (FOLDER / "settings.env").read_text("utf-8").split())


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", ALL)
def test_every_document_is_of_the_schemas(name: str, version: str) -> None:
    kubernetes_validate.validate(ALL[name], version, strict=True)


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("name", OF_BUILDS)
def test_every_document_of_a_build_is_of_the_schemas(name: str, version: str) -> None:
    kubernetes_validate.validate(OF_BUILDS[name], version, strict=True)


def test_the_workers_of_a_build_are_those_of_the_base_under_their_version() -> None:
    (name,) = [name for name in OF_BUILDS if name.startswith("Deployment")]
    build = OF_BUILDS[name]
    version = build["metadata"]["labels"]["app.kubernetes.io/version"]
    labels = {"app.kubernetes.io/component": "build-worker", "app.kubernetes.io/version": version}
    assert build["spec"]["selector"]["matchLabels"] == labels
    assert build["spec"]["template"]["metadata"]["labels"] == labels
    assert build["metadata"]["name"] == f"perdure-worker-{version.replace('.', '-')}"
    (container,) = build["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith(f":{version}")
    told = yaml.safe_dump(build["spec"]["template"]["spec"]).replace(container["image"], "perdure")
    pods = yaml.safe_load(told)
    pods["topologySpreadConstraints"][0]["labelSelector"] = {
        "matchLabels": {"app.kubernetes.io/component": "worker"}
    }
    assert pods == PODS["Deployment perdure-worker"]["spec"], "nothing else differs"
    for kind in ("HorizontalPodAutoscaler", "PodDisruptionBudget"):
        spec = OF_BUILDS[f"{kind} {build['metadata']['name']}"]["spec"]
        target = spec.get("scaleTargetRef", {}).get("name") or spec["selector"]["matchLabels"]
        assert target in (build["metadata"]["name"], labels)


def test_no_rolling_update_takes_a_build_away() -> None:
    """The base's workers go: pods of one Deployment are of one build."""
    patches = [yaml.safe_load(one["patch"]) for one in BUILDS["patches"]]
    gone = [one for one in patches if one.get("$patch") == "delete"]
    assert {f"{one['kind']} {one['metadata']['name']}" for one in gone} == {
        name for name in ALL if name.endswith(" perdure-worker")
    }
    assert BUILDS["resources"][0] == "../kubernetes"
    # An image for all would be one for the old builds too; the others get theirs by name.
    assert "images" not in BUILDS
    for one in patches:
        if one not in gone:
            (container,) = one["spec"]["template"]["spec"]["containers"]
            base = PODS[f"{one['kind']} {one['metadata']['name']}"]["spec"]["containers"]
            assert set(container) == {"name", "image"}
            assert [container["name"]] == [other["name"] for other in base]
    assert {path.name for path in VERSIONS.iterdir()} == {
        "kustomization.yaml", *BUILDS["resources"][1:],
    }  # fmt: skip
    (settings,) = BUILDS["configMapGenerator"]
    assert settings["behavior"] == "merge"
    assert settings["name"] == KUSTOMIZATION["configMapGenerator"][0]["name"]
    assert [one.partition("=")[0] for one in settings["literals"]] == ["PERDURE_DEPLOYMENT"]


def test_the_schemas_refuse_what_is_mistyped() -> None:
    wrong = yaml.safe_load(yaml.safe_dump(ALL["Deployment perdure-worker"]))
    wrong["spec"]["template"]["spec"]["terminationGracePeriodSecond"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, NEWEST, strict=True)


def test_the_folder_holds_what_the_kustomization_names() -> None:
    named = {*KUSTOMIZATION["resources"], *KUSTOMIZATION["configMapGenerator"][0]["envs"]}
    beside = {"kustomization.yaml", "secret.example.yaml", "prometheus-adapter.yaml"}
    assert {path.name for path in FOLDER.iterdir()} == named | beside


@pytest.mark.parametrize("name", PODS)
def test_a_pod_is_closed(name: str) -> None:
    spec = PODS[name]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in spec["volumes"]}
    assert {SETTINGS["PERDURE_HOME"], "/tmp"} <= set(mounted.values())


def test_the_user_is_that_of_the_image() -> None:
    image = (FOLDER.parent / "Dockerfile").read_text("utf-8")
    for name, pod in PODS.items():
        assert f"--uid {pod['spec']['securityContext']['runAsUser']} " in image, name


@pytest.mark.parametrize("name", [name for name in ALL if ALL[name]["kind"] == "Deployment"])
def test_selectors_find_their_own_pods(name: str) -> None:
    wanted = ALL[name]["spec"]["selector"]["matchLabels"].items()
    found = {pod for pod, one in PODS.items() if wanted <= one["metadata"]["labels"].items()}
    assert found == {name}


def test_a_worker_may_drain_before_it_is_killed() -> None:
    grace = PODS["Deployment perdure-worker"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > int(SETTINGS["PERDURE_SHUTDOWN_GRACE_S"])


def test_a_worker_is_ready_by_the_file_that_it_writes() -> None:
    (worker,) = PODS["Deployment perdure-worker"]["spec"]["containers"]
    ready = SETTINGS["PERDURE_READY_FILE"]
    assert worker["readinessProbe"]["exec"]["command"] == ["test", "-s", ready]
    # The others would end a worker that waits for an absent store.
    assert {name for name in worker if name.endswith("Probe")} == {"readinessProbe"}
    folders = {mount["mountPath"] for mount in worker["volumeMounts"]}
    assert str(Path(ready).parent) in folders


def test_settings_and_secrets_are_known() -> None:
    ours = {f"PERDURE_{field.upper()}" for field in Settings.model_fields}
    secret = ALL["Secret perdure"]["stringData"]
    given = {
        one["name"] for pod in PODS.values() for one in pod["spec"]["containers"][0].get("env", ())
    }
    assert {*SETTINGS, *secret, *given} <= ours | STANDARD
    assert "Secret perdure" not in {
        name
        for file in KUSTOMIZATION["resources"]
        for name in (FOLDER / file).read_text("utf-8").splitlines()
    }
    assert "secret.example.yaml" not in KUSTOMIZATION["resources"]


def test_ports_are_where_the_processes_listen() -> None:
    (worker,) = PODS["Deployment perdure-worker"]["spec"]["containers"]
    (api,) = PODS["Deployment perdure-api"]["spec"]["containers"]
    listened = SETTINGS["PERDURE_METRICS_ADDRESS"].rpartition(":")[2]
    assert [str(port["containerPort"]) for port in worker["ports"]] == [listened]
    assert api["args"][-1] == str(api["ports"][0]["containerPort"])
    allowed = {
        port["port"]
        for rule in ALL["NetworkPolicy perdure-metrics"]["spec"]["ingress"]
        for port in rule["ports"]
    }
    assert allowed == {int(listened), api["ports"][0]["containerPort"]}


def test_workers_are_scaled_by_a_metric_that_the_api_tells() -> None:
    scaled = ALL["HorizontalPodAutoscaler perdure-worker"]["spec"]
    external = [one["external"] for one in scaled["metrics"] if one["type"] == "External"]
    (metric,) = [one["metric"]["name"] for one in external]
    assert metric in {one.in_prometheus for one in METRICS}
    adapter = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text("utf-8"))
    assert [rule["name"]["as"] for rule in adapter["rules"]["external"]] == [metric]
    assert "replicas" not in ALL["Deployment perdure-worker"]["spec"]


def test_nothing_is_open_by_default() -> None:
    default = ALL["NetworkPolicy perdure-default"]["spec"]
    assert default == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


PRIVATE = {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}
EXAMPLES = ipaddress.IPv4Network("192.0.2.0/24")


def _places(policy: str) -> list[dict[str, Any]]:
    rules = ALL[f"NetworkPolicy {policy}"]["spec"]["egress"]
    return [place for rule in rules for place in rule["to"]]


def test_private_places_are_reached_by_rules_to_fill_in_alone() -> None:
    for place in _places("perdure-egress-private"):
        if "ipBlock" in place:
            assert ipaddress.IPv4Network(place["ipBlock"]["cidr"]).subnet_of(EXAMPLES)
        else:
            assert place["namespaceSelector"]["matchLabels"]
    rules = ALL["NetworkPolicy perdure-egress-private"]["spec"]["egress"]
    assert {port["port"] for rule in rules for port in rule["ports"]} == {443, 4318, 5432, 7233}
    for place in _places("perdure-egress"):
        if "ipBlock" in place:
            assert set(place["ipBlock"]["except"]) >= PRIVATE


def test_the_job_brings_a_new_database_to_its_schema(tmp_path: Path) -> None:
    (container,) = PODS["Job perdure-migrations"]["spec"]["containers"]
    program, *arguments = container["args"]
    done = subprocess.run(
        [sys.executable, "-P", "-m", program, *arguments],
        env={"PERDURE_HOME": str(tmp_path), "TEMPORAL_ADDRESS": "127.0.0.1:1", "HOME": "/nowhere"},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "perdure.sqlite").stat().st_size > 100_000
