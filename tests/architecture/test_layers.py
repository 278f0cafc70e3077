"""Layer rules that the import linter cannot see: by process, by single name, in every module."""

import ast
import subprocess
import sys

import pytest

from tests.architecture.sources import PACKAGES, imports, modules

# Who may hold a Temporal client: the gateway, what composes or connects, and what keeps the
# embedded server. Doors, activities and the domain never do.
TEMPORAL_CLIENT_HOMES = (
    "perdure.gateway",
    "perdure.adapters.temporal.client",
    "perdure.adapters.temporal.renewed_key",
    "perdure.local_services",
    "perdure.composition",
    "perdure.worker",
    "perdure.fleet",
    "perdure.temporal",
    "perdure.embedding.late_opening",
    "perdure.embedding.loop_histories",
    "perdure.testing",
    "perdure.operations",
)
OUTSIDE = (
    "aiosqlite",
    "anthropic",
    "cryptography",
    "cyclopts",
    "fastapi",
    "genai_prices",
    "httpx2",
    "jsonschema",
    "mcp",
    "openai",
    "opentelemetry",
    "psutil",
    "psycopg",
    "pydantic_settings",
    "rapidfuzz",
    "re2",
    "rich",
    "sqlalchemy",
    "structlog",
    "yaml",
)
# What of the standard library has effects, or differs from one run to the next.
IMPURE = frozenset(
    {
        "asyncio", "concurrent", "ctypes", "fcntl", "ftplib", "getpass", "glob", "http", "io",
        "logging", "multiprocessing", "os", "pathlib", "platform", "random", "secrets", "select",
        "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "sys", "tempfile",
        "threading", "time", "urllib", "uuid",
    }
)  # fmt: skip
PURE = (sys.stdlib_module_names - IMPURE) | {"pydantic", "pydantic_core"}
PROBE = """
import importlib, sys
for name in {forbidden!r}:
    sys.modules[name] = None
for name in {names!r}:
    importlib.import_module(name)
print(*sorted({{name.split(".")[0] for name, module in sys.modules.items() if module}}))
"""


def loaded(*names: str, forbidden: tuple[str, ...] = ()) -> set[str]:
    """The top-level modules that a fresh process holds after importing `names`."""
    script = PROBE.format(forbidden=forbidden, names=names)
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return set(done.stdout.split())


def client_imports(tree: ast.AST) -> list[str]:
    return [name for name in imports(tree) if f"{name}.".startswith("temporalio.client.")]


def impure_imports(tree: ast.AST) -> list[str]:
    return [
        name
        for name in imports(tree)
        if name.split(".")[0] not in PURE and not f"{name}.".startswith("perdure.domain.")
    ]


@pytest.mark.long
def test_a_temporal_client_is_held_by_few() -> None:
    holders = {m.name for m in modules(*PACKAGES) if client_imports(m.tree)}
    strangers = [name for name in sorted(holders) if not name.startswith(TEMPORAL_CLIENT_HOMES)]
    assert strangers == []


# What the pages may know of the product: data reach them through the REST API alone.
PAGES_STAND_ON = (
    "perdure.domain.",
    "perdure.event_log.",
    "perdure.gateway.types.",
    "perdure.interfaces.audit_trail.",
    "perdure.interfaces.contents.",
    "perdure.interfaces.experiments.",
    "perdure.interfaces.erasure_words.",
    "perdure.interfaces.explanation.",
    "perdure.interfaces.formatting.",
    "perdure.interfaces.plan.",
    "perdure.interfaces.model_calls.",
    "perdure.interfaces.rest.",
    "perdure.interfaces.schedule_words.",
    "perdure.interfaces.spending.",
    "perdure.interfaces.tokens.",
    "perdure.interfaces.web.",
    "perdure.strict_yaml.",
    "perdure.submission.layers.",
)


def test_the_pages_know_the_api_and_no_second_way_to_data() -> None:
    found = {
        m.name: [
            name
            for name in imports(m.tree)
            if name.startswith("perdure.") and not f"{name}.".startswith(PAGES_STAND_ON)
        ]
        for m in modules("perdure/interfaces/web")
    }
    assert len(found) > 8
    assert {name: names for name, names in found.items() if names} == {}


def test_the_domain_imports_what_is_pure() -> None:
    found = {m.name: impure_imports(m.tree) for m in modules("perdure/domain")}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import os", ["os"]),
        ("from time import time", ["time.time"]),
        ("import httpx2", ["httpx2"]),
        ("from perdure.adapters import settings", ["perdure.adapters.settings"]),
        ("def f():\n    import random", ["random"]),
        (
            "import json, re\nfrom pydantic import Field\n"
            "from perdure.domain.foundation.base import FrozenModel",
            [],
        ),
        ("from perdure.domain import budget", []),
    ],
    ids=["module", "name", "third party", "adapter", "inside a function", "pure", "own"],
)
def test_the_rule_of_the_domain_sees(source: str, found: list[str]) -> None:
    assert impure_imports(ast.parse(source)) == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("from temporalio.client import Client", ["temporalio.client.Client"]),
        ("from temporalio import client", ["temporalio.client"]),
        ("import temporalio.client as c", ["temporalio.client"]),
        ("from temporalio import workflow", []),
    ],
    ids=["name", "module", "alias", "another"],
)
def test_the_rule_of_the_client_sees(source: str, found: list[str]) -> None:
    assert client_imports(ast.parse(source)) == found


def test_importing_perdure_brings_no_machinery() -> None:
    heavy = {"temporalio", "pydantic", *OUTSIDE}
    assert loaded("perdure") & heavy == set()


@pytest.mark.long
def test_workflow_modules_live_without_the_outside_world() -> None:
    names = [module.name for module in modules("workflows")]
    assert {"temporalio", "perdure"} <= loaded(*names, forbidden=OUTSIDE)


def test_the_domain_lives_without_temporal() -> None:
    names = [module.name for module in modules("perdure/domain")]
    assert "pydantic" in loaded(*names, forbidden=(*OUTSIDE, "temporalio"))


def test_the_probe_sees_a_forbidden_library() -> None:
    with pytest.raises(AssertionError, match="import of structlog halted"):
        loaded("perdure.adapters.logging.setup", forbidden=OUTSIDE)
