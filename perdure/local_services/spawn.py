"""Start the supervisor in the background: a session of its own, its words in a log file."""

import os
import sys

from perdure.adapters.settings.variables import Settings
from perdure.domain.foundation.errors import RuntimeUnavailable
from perdure.local_services.processes import ProcessRef, process_ref
from perdure.local_services.state import HomeFiles

MODULE = "perdure.local_services"


def spawn_supervisor(files: HomeFiles, settings: Settings) -> ProcessRef:
    """Start a detached supervisor of these settings and return its process.

    It outlives its starter, which therefore holds no handle of it that would have to be awaited.
    """
    environment = settings.for_services()
    environment["PERDURE_HOME"] = str(settings.home)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-P", "-m", MODULE],
        environment,
        setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(files.log("supervisor")), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
    )
    started = process_ref(pid)
    if started is None:
        raise RuntimeUnavailable(
            "The supervisor ended at once.", cure="Read `perdure logs supervisor`, then try again."
        )
    return started
