"""The compose file and the files it names: structure only, since no container engine is assumed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.names import SEARCH_ATTRIBUTES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text("utf-8")
# As a shell without any of the variables has it.
COMPOSE: dict[str, Any] = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", TEXT))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
CONDITIONS = {"service_healthy", "service_completed_successfully", "service_started"}


def _misfits(compose: Any) -> list[str]:
    """What the Compose Specification's own schema, kept beside this file, says against it."""
    schema = json.loads((Path(__file__).parent / "compose-spec.json").read_text("utf-8"))
    return [error.message for error in Draft202012Validator(schema).iter_errors(compose)]  # pyright: ignore[reportUnknownMemberType]


def test_the_file_is_of_the_compose_specification() -> None:
    assert _misfits(COMPOSE) == []
    mistyped = {**COMPOSE, "services": {"worker": {**SERVICES["worker"], "helthcheck": {}}}}
    assert "helthcheck" in " ".join(_misfits(mistyped))


def test_the_services_of_a_team_are_there() -> None:
    wanted = {"postgresql", "temporal", "temporal-ui", "worker", "api", "collector"}
    assert wanted <= SERVICES.keys()


@pytest.mark.parametrize("name", ["postgresql", "temporal", "worker", "api"])
def test_what_others_wait_for_says_when_it_serves(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]


def test_no_secret_stands_in_the_file() -> None:
    """Keys are mounted as files; the one password that is there is for a closed machine."""
    given = re.findall(r"^ +\w*(?:KEY|PASSWORD|PWD|TOKEN|SECRET)\w*: (.+)$", TEXT, re.MULTILINE)
    assert given
    allowed = r"\$\{POSTGRES_PASSWORD:-perdure\}$|file:/run/secrets/\w+$"
    assert all(re.match(allowed, value) for value in given)


def test_a_service_that_reads_a_secret_has_it_mounted() -> None:
    for service in SERVICES.values():
        read = re.findall(r"file:/run/secrets/(\w+)", str(service.get("environment", {})))
        assert read == service.get("secrets", [])
        assert all(COMPOSE["secrets"][name] for name in read)
    assert SERVICES["worker"]["secrets"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_built_here_or_pinned_by_version(name: str) -> None:
    service = SERVICES[name]
    assert ("image" in service) != ("build" in service)
    if "image" in service:
        assert re.fullmatch(r"[\w./-]+:\d+\.\d+(\.\d+)?", service["image"])


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_dependencies_exist_and_can_be_met(name: str) -> None:
    for other, condition in SERVICES[name].get("depends_on", {}).items():
        assert condition["condition"] in CONDITIONS
        if condition["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other]
        if condition["condition"] == "service_completed_successfully":
            assert "entrypoint" in SERVICES[other]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_ports_are_bound_to_loopback(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_volumes_and_scripts_exist(name: str) -> None:
    service = SERVICES[name]
    for volume in service.get("volumes", []):
        source = volume.split(":")[0]
        assert (ROOT / source).is_dir() if source.startswith(".") else source in COMPOSE["volumes"]
    given = [*service.get("entrypoint", []), *service.get("command", [])]
    for word in [*given, *service.get("environment", {}).values()]:
        found = str(word).removeprefix("--config=")
        if found.startswith("/ops/"):
            assert (ROOT / found.removeprefix("/")).is_file()


def test_the_collector_takes_what_the_services_send() -> None:
    config = yaml.safe_load((ROOT / "ops/otel-collector.yaml").read_text("utf-8"))
    (port,) = (port.rpartition(":")[2] for port in SERVICES["collector"]["ports"])
    assert config["receivers"]["otlp"]["protocols"]["http"]["endpoint"] == f"0.0.0.0:{port}"
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= config[kind].keys()
    assert config["service"]["pipelines"].keys() == {"traces", "metrics"}
    for name in ("worker", "api"):
        assert "OTEL_EXPORTER_OTLP_ENDPOINT" in SERVICES[name]["environment"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_variable_of_ours_is_a_setting(name: str) -> None:
    """A mistyped one would be left out without a word."""
    known = {f"PERDURE_{field.upper()}" for field in Settings.model_fields}
    named = {key for key in SERVICES[name].get("environment", {}) if key.startswith("PERDURE_")}
    assert named <= known


def test_a_workspace_has_the_same_name_inside_as_outside() -> None:
    (mount,) = (line.strip() for line in TEXT.splitlines() if "PERDURE_WORKSPACES:-work" in line)
    outside, inside = re.findall(r"\$\{(\w+):-", mount)
    assert outside == inside == "PERDURE_WORKSPACES"


def test_the_worker_reaches_the_services_by_their_names() -> None:
    environment = SERVICES["worker"]["environment"]
    assert environment["TEMPORAL_ADDRESS"] == "temporal:7233"
    assert "@postgresql:5432/" in environment["PERDURE_DATABASE_URL"]
    assert (ROOT / SERVICES["worker"]["build"]["dockerfile"]).is_file()


def test_the_server_can_put_questions_to_workers() -> None:
    flags = yaml.safe_load((ROOT / "ops/temporal-dynamic-config.yaml").read_text("utf-8"))
    for name in ("activity.enableStandalone", "history.enableChasm"):
        assert flags[name] == [{"value": True, "constraints": {}}]


def test_the_namespace_job_adds_every_search_attribute() -> None:
    script = (ROOT / "ops/temporal-namespace.sh").read_text("utf-8")
    keywords = re.search(r"for name in ([\w ]+); do add", script)
    assert keywords is not None
    added = {f"Perdure{name}": "Keyword" for name in keywords[1].split()}
    added |= dict(re.findall(r"^add (Perdure\w+) (\w+)$", script, re.MULTILINE))
    assert added == SEARCH_ATTRIBUTES


def test_a_worker_may_drain_before_it_is_killed() -> None:
    grace = int(SERVICES["worker"]["stop_grace_period"].removesuffix("s"))
    assert grace > Settings.model_fields["shutdown_grace_s"].default


def test_the_image_copies_what_exists() -> None:
    lines = (ROOT / "ops" / "Dockerfile").read_text("utf-8").splitlines()
    assert any(re.fullmatch(r"FROM python:3\.11\.\d+-slim-bookworm", line) for line in lines)
    assert {"git", "bubblewrap"} <= set(" ".join(lines).split())
    copied = [line.split()[1:-1] for line in lines if re.match(r"COPY (?!--from)", line)]
    assert all((ROOT / source).exists() for sources in copied for source in sources)
