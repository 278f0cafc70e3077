"""The embedded services: one supervisor process per user keeps Temporal, model and worker alive.

What a caller needs is named here. Nothing in this package ends a process that it cannot name by its
id *and* its start.
"""

from perdure.local_services.embedded import EmbeddedRuntime
from perdure.local_services.logs import LogLine, read_logs
from perdure.local_services.ready_file import announce_ready, say_what_is_polled, withdraw_ready
from perdure.local_services.run_foreground import up
from perdure.local_services.state import PartState, RuntimeState
from perdure.local_services.status_table import banner, render

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
