"""The gateway: the only way from a door to Temporal."""

from perdure.domain.specs import Spec
from perdure.gateway.gateway import Gateway
from perdure.gateway.project_assignment import Settling
from perdure.gateway.types import (
    BulkReport,
    InstallationInfo,
    OpenGate,
    OpenGates,
    QueueState,
    RunFilter,
    RunPage,
    RunRow,
    Waits,
)
from perdure.gateway.workflow_inputs import LOOP_INPUTS, loop_input

__all__ = [
    "LOOP_INPUTS",
    "BulkReport",
    "Gateway",
    "InstallationInfo",
    "OpenGate",
    "OpenGates",
    "QueueState",
    "RunFilter",
    "RunPage",
    "RunRow",
    "Settling",
    "Spec",
    "Waits",
    "loop_input",
]
