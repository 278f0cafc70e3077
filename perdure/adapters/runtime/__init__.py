"""The embedded services: one supervisor process per user keeps Temporal, model and worker alive.

What a caller needs is named here. Nothing in this package ends a process that it cannot name by its
id *and* its start.
"""

from perdure.adapters.runtime.embedded import EmbeddedRuntime
from perdure.adapters.runtime.foreground import up
from perdure.adapters.runtime.logs import LogLine, read_logs
from perdure.adapters.runtime.ready import announce_ready, say_what_is_polled, withdraw_ready
from perdure.adapters.runtime.state import PartState, RuntimeState
from perdure.adapters.runtime.table import banner, render

__all__ = [
    "EmbeddedRuntime",
    "LogLine",
    "PartState",
    "RuntimeState",
    "announce_ready",
    "banner",
    "read_logs",
    "render",
    "say_what_is_polled",
    "up",
    "withdraw_ready",
]
