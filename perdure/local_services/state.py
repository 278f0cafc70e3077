"""The supervisor's state: one JSON file in the home folder, which is replaced atomically."""

import os
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from perdure.adapters.files.private import make_private
from perdure.domain.foundation.base import FrozenModel
from perdure.domain.foundation.tolerance import read
from perdure.domain.ports import Endpoints
from perdure.local_services.processes import ProcessRef, is_alive, usable

PartStatus = Literal["starting", "running", "restarting", "failed", "stopped"]
RuntimeStatus = Literal["starting", "ready", "stopping", "stopped", "failed"]


class PartState(FrozenModel):
    """One service as the supervisor sees it; the others can do without an `optional` one."""

    name: str
    status: PartStatus
    process: ProcessRef | None = None
    port: int | None = None
    restarts: int = 0
    detail: str = ""
    optional: bool = False

    @property
    def is_serving(self) -> bool:
        return self.status == "running" and self.process is not None and is_alive(self.process)


class RuntimeState(FrozenModel):
    """The embedded services of one home folder.

    `watcher` restarts a detached supervisor that died. `settings` maps names to salted digests, so
    that settings can be compared without writing secrets down. The workers have `grace_s` to drain,
    whatever the command that ends them is set to.
    """

    supervisor: ProcessRef
    watcher: ProcessRef | None = None
    status: RuntimeStatus
    endpoints: Endpoints
    parts: tuple[PartState, ...] = ()
    ports: dict[str, int] = {}
    settings: dict[str, str] = {}
    started_at: datetime
    detached: bool = True
    grace_s: float = 0.0
    error: str = ""

    @property
    def is_serving(self) -> bool:
        """Whether all services were started and run.

        This checks the processes too: one may have died before the supervisor could record it.
        """
        return self.status == "ready" and all(
            part.is_serving for part in self.parts if not part.optional
        )

    def part(self, name: str) -> PartState | None:
        return next((part for part in self.parts if part.name == name), None)


class HomeFiles:
    """The paths in the home folder, which need not exist."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.logs = home / "logs"
        self.run = home / "run"
        self.state = home / "state.json"
        self.lock = self.run / "supervisor.lock"
        self.start_lock = self.run / "start.lock"
        self.used = self.run / "last-used"
        self.salt = self.run / "salt"
        self.temporal_database = home / "temporal.sqlite"

    def make(self) -> None:
        """Create the folders, private to the user.

        Raises:
            RuntimeUnavailable: they cannot be created or written to.
        """
        with usable(self.home):
            for folder in (self.home, self.logs, self.run):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Also if it was there before, with wider rights: it holds keys and the database.
            make_private(self.home)

    def log(self, part: str) -> Path:
        return self.logs / f"{part}.log"

    def ready(self, part: str) -> Path:
        """The file that a worker writes once it polls."""
        return self.run / f"{part}.ready"


def read_state(files: HomeFiles) -> RuntimeState | None:
    """The last state that a supervisor of this home wrote; None if there is none to be read.

    A home that was copied while its services ran has their state too; they belong to the original.
    """
    try:
        state = read(RuntimeState, files.state.read_text(encoding="utf-8"))
    # A power cut may leave an empty file, and then no process of it is left either.
    except (FileNotFoundError, NotADirectoryError, PermissionError, ValidationError):
        return None
    return None if _is_copied(state, files) else state


def _is_copied(state: RuntimeState, files: HomeFiles) -> bool:
    try:
        return not files.home.samefile(state.endpoints.home)
    except OSError:  # the home was moved, and its services with it
        return False


def write_state(files: HomeFiles, state: RuntimeState) -> None:
    """Write the state file aside and rename it, so that no reader sees half of it."""
    # The process id in the name keeps two writers apart.
    draft = files.state.with_name(f"state.{os.getpid()}.tmp")
    draft.write_text(state.model_dump_json(indent=2), encoding="utf-8")
    draft.replace(files.state)
