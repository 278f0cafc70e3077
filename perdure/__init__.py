"""Perdure: durable language-model loops on Temporal.

from perdure import Client, RunSpec, tool
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.checking import CheckResult, check
    from perdure.client import Client, RunHandle
    from perdure.domain.errors import PerdureError
    from perdure.domain.events import Event
    from perdure.domain.result import RunResult
    from perdure.domain.run import AgentSpec, DelegationSpec, RefineSpec, RolesSpec, RunSpec
    from perdure.domain.status import RunStatus
    from perdure.tooling import tool

__all__ = [
    "AgentSpec",
    "CheckResult",
    "Client",
    "DelegationSpec",
    "Event",
    "PerdureError",
    "RefineSpec",
    "RolesSpec",
    "RunHandle",
    "RunResult",
    "RunSpec",
    "RunStatus",
    "check",
    "tool",
]

# Loaded at first use: a module of tools needs neither the client nor Temporal.
_HOMES = {
    "AgentSpec": "perdure.domain.run",
    "CheckResult": "perdure.checking",
    "Client": "perdure.client",
    "DelegationSpec": "perdure.domain.run",
    "Event": "perdure.domain.events",
    "PerdureError": "perdure.domain.errors",
    "RefineSpec": "perdure.domain.run",
    "RolesSpec": "perdure.domain.run",
    "RunHandle": "perdure.client",
    "RunResult": "perdure.domain.result",
    "RunSpec": "perdure.domain.run",
    "RunStatus": "perdure.domain.status",
    "check": "perdure.checking",
    "tool": "perdure.tooling",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
