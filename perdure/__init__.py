"""Perdure: durable language-model loops on Temporal.

from perdure import Client, RunSpec, tool
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.client import Client
    from perdure.domain.agent.spec import AgentSpec
    from perdure.domain.delegation.spec import DelegationSpec
    from perdure.domain.foundation.errors import PerdureError
    from perdure.domain.refine.spec import RefineSpec
    from perdure.domain.roles.spec import RolesSpec
    from perdure.domain.run.events import Event
    from perdure.domain.run.hooks import EndFacts, IterationFacts
    from perdure.domain.run.result import RunResult
    from perdure.domain.run.status import RunStatus
    from perdure.domain.specs import RunSpec
    from perdure.extending.check_decorator import Adaptation, CheckResult, check
    from perdure.extending.hook_decorators import adapt, on_end, on_iteration
    from perdure.extending.tool_decorator import tool
    from perdure.run_handle import RunHandle
    from perdure.submission.types import Flags

__all__ = [
    "Adaptation",
    "AgentSpec",
    "CheckResult",
    "Client",
    "DelegationSpec",
    "EndFacts",
    "Event",
    "Flags",
    "IterationFacts",
    "PerdureError",
    "RefineSpec",
    "RolesSpec",
    "RunHandle",
    "RunResult",
    "RunSpec",
    "RunStatus",
    "adapt",
    "check",
    "on_end",
    "on_iteration",
    "tool",
]

# Loaded at first use: a module of tools needs neither the client nor Temporal.
_HOMES = {
    "Adaptation": "perdure.extending.check_decorator",
    "AgentSpec": "perdure.domain.agent.spec",
    "CheckResult": "perdure.extending.check_decorator",
    "Client": "perdure.client",
    "DelegationSpec": "perdure.domain.delegation.spec",
    "EndFacts": "perdure.domain.run.hooks",
    "Event": "perdure.domain.run.events",
    "Flags": "perdure.submission.types",
    "IterationFacts": "perdure.domain.run.hooks",
    "PerdureError": "perdure.domain.foundation.errors",
    "RefineSpec": "perdure.domain.refine.spec",
    "RolesSpec": "perdure.domain.roles.spec",
    "RunHandle": "perdure.run_handle",
    "RunResult": "perdure.domain.run.result",
    "RunSpec": "perdure.domain.specs",
    "RunStatus": "perdure.domain.run.status",
    "adapt": "perdure.extending.hook_decorators",
    "check": "perdure.extending.check_decorator",
    "on_end": "perdure.extending.hook_decorators",
    "on_iteration": "perdure.extending.hook_decorators",
    "tool": "perdure.extending.tool_decorator",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
