"""The gateway: the only way from a door to Temporal."""

from perdure.interfaces.gateway.facts import (
    BulkReport,
    OpenGate,
    OpenGates,
    QueueState,
    RunFilter,
    RunPage,
    RunRow,
    SiteFacts,
    Spec,
    Waits,
)
from perdure.interfaces.gateway.gateway import Gateway
from perdure.interfaces.gateway.inputs import LOOP_INPUTS, loop_input
from perdure.interfaces.gateway.settling import Settling

__all__ = [
    "LOOP_INPUTS",
    "BulkReport",
    "Gateway",
    "OpenGate",
    "OpenGates",
    "QueueState",
    "RunFilter",
    "RunPage",
    "RunRow",
    "Settling",
    "SiteFacts",
    "Spec",
    "Waits",
    "loop_input",
]
