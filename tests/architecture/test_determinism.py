"""No clock, chance or environment where the same input must give the same answer.

Nothing else restricts the code of workflows, which run without the SDK's sandbox: a default factory
that reads a clock gives another value on every replay, and nothing fails.
"""

import ast

import pytest

from tests.architecture.sources import modules, uses

BANNED = (
    # Around an activity the late value is returned and the limit passes unseen; sets have no order.
    "asyncio.wait_for",
    "asyncio.timeout",
    "asyncio.timeout_at",
    "asyncio.wait",
    "asyncio.as_completed",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "time",
    "uuid",
    "random",
    "secrets",
    "os",
)


def varying(tree: ast.AST) -> list[str]:
    return [
        f"{name} (line {line})"
        for name, line in uses(tree)
        if any(f"{name}.".startswith(f"{banned}.") for banned in BANNED)
    ]


def test_domain_and_workflows_do_not_vary() -> None:
    found = {m.name: varying(m.tree) for m in modules("perdure/domain", "workflows")}
    assert {name: names for name, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("from datetime import datetime\nx = datetime.now()", True),
        ("import datetime as d\nx = d.datetime.utcnow()", True),
        ("from datetime import datetime\nx = field(default_factory=lambda: datetime.now())", True),
        ("import time\nx = time.time()", True),
        ("from uuid import uuid4\nx = Field(default_factory=uuid4)", True),
        ("import random\nx = random.random()", True),
        ("import os\nx = os.environ['A']", True),
        ("import asyncio\nasync def f():\n    await asyncio.wait_for(g(), 1)", True),
        ("from datetime import datetime\nx = datetime.fromisoformat('2026-01-01')", False),
        ("from temporalio import workflow\nx = workflow.now(), workflow.uuid4()", False),
        ("from dataclasses import field\nx = field(default_factory=dict)", False),
        ("time = 3\nx = time", False),
    ],
    ids=[
        "now", "utcnow by alias", "a clock in a factory", "time", "an id in a factory", "random",
        "environment", "wait_for", "parsing", "workflow's own", "an empty dict", "a word",
    ],
)  # fmt: skip
def test_the_rule_sees(source: str, seen: bool) -> None:
    assert bool(varying(ast.parse(source))) is seen
