"""Stub services, free ports, and waiting for a fact instead of for a time."""

import os
import random
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from perdure.adapters.http_server import is_free
from perdure.domain.ports import Endpoints
from perdure.local_services.processes import ProcessRef
from perdure.local_services.state import HomeFiles, RuntimeState, write_state

GONE = ProcessRef(pid=2**22 + 1, started="never")
ANNOUNCE = "pathlib.Path(os.environ['PERDURE_READY_FILE']).write_text(str(os.getpid()))"
WORKER = f"import os, pathlib, signal; {ANNOUNCE}; signal.pause()"
STUBBORN_WORKER = (
    "import os, pathlib, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    f"{ANNOUNCE}; [signal.pause() for _ in iter(int, 1)]"
)
SERVER = (
    "import sys, http.server as h\n"
    "class H(h.BaseHTTPRequestHandler):\n"
    "    def do_GET(self): self.send_response(200); self.end_headers(); self.wfile.write(b'ok')\n"
    "h.HTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n"
)


def python(script: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script, *arguments)


def free_port() -> int:
    """A free port below the range that the system hands out, so that it stays free."""
    # Not `random` itself, which tests seed anew: processes side by side would draw the same.
    drawn = random.SystemRandom()
    return next(port for port in iter(lambda: drawn.randrange(20_000, 32_000), 0) if is_free(port))


def write(home: Path, **fields: Any) -> None:
    """Write the state of services, which are ready unless the fields say otherwise."""
    files = HomeFiles(home)
    files.make()
    endpoints = Endpoints(temporal_address="127.0.0.1:1", namespace="default", home=str(home))
    now = datetime.now(UTC)
    base: dict[str, Any] = {"status": "ready", "endpoints": endpoints, "started_at": now}
    write_state(files, RuntimeState(**(base | fields)))


def kill(ref: ProcessRef) -> None:
    """SIGKILL to exactly this process, which the test's own services started."""
    os.kill(ref.pid, signal.SIGKILL)


def kill_with_watcher(state: RuntimeState) -> None:
    """SIGKILL to a supervisor and to the one that would start it again in a second."""
    kill(state.supervisor)
    assert state.watcher is not None
    kill(state.watcher)


def process_of(state: RuntimeState | None, part: str) -> ProcessRef:
    assert state is not None
    found = state.part(part)
    assert found is not None and found.process is not None
    return found.process


def processes_of(state: RuntimeState | None) -> list[ProcessRef]:
    assert state is not None
    return [state.supervisor, *(part.process for part in state.parts if part.process)]


def any_of_home(home: object) -> list[int]:
    """Processes that have the home folder in their command line or environment."""
    found: list[int] = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), process.environ().get("PERDURE_HOME", "")]
            if process.status() != psutil.STATUS_ZOMBIE and any(str(home) in w for w in words):
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found
