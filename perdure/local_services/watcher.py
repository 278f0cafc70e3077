"""The watcher process: sleeps until the supervisor dies, then becomes the new supervisor.

It runs as a script, `python -I -S watcher.py HOME SUPERVISOR_PID DEATHS`, without importing
anything of Perdure, so that it takes little memory. Only the supervisor holds the other end of its
standard input. If the supervisor writes a word into that pipe, it ends in order. If the pipe closes
without a word, it died. The watcher then waits, longer after each death, and becomes the new
supervisor, which starts a watcher of its own.
"""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

MODULE = "perdure.local_services"
BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 300.0
STEADY_AFTER_S = 600.0


def main() -> None:
    home, supervisor, deaths = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the supervisor
    began = time.monotonic()
    if sys.stdin.buffer.read():
        return
    if time.monotonic() - began > STEADY_AFTER_S:
        deaths = 0
    # The exponent is bounded, since 2 ** 1024 fits no float.
    time.sleep(min(BACKOFF_FIRST_S * 2 ** min(deaths, 16), BACKOFF_MAX_S))
    # Checked after the wait, because `up` or `down` may have been called meanwhile.
    if is_wanted(home, supervisor, deaths):
        said = {"event": "supervisor_died", "process": supervisor, "deaths": deaths + 1}
        # The log may lie on a full disk, which must not keep the services from coming back.
        with suppress(OSError):
            print(json.dumps(said | {"level": "warning"}), flush=True)  # noqa: T201 - it is the log
        # The same process id, so that `down` finds the new supervisor by the watcher in the state.
        os.execv(sys.executable, [sys.executable, "-P", "-m", MODULE, str(deaths + 1)])


def is_wanted(home: Path, supervisor: int, deaths: int) -> bool:
    """Whether the state file still names the dead supervisor, and its services had been started.

    If the first start fails, the command that waits for it reports that, and nothing is restarted
    behind its back. A start by the watcher is tried again.
    """
    try:
        state = json.loads((home / "state.json").read_text(encoding="utf-8"))
        named, status = state["supervisor"]["pid"], state["status"]
    # Without a state that can be read, nobody is known to want the services.
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return named == supervisor and (status != "starting" or deaths > 0)


if __name__ == "__main__":
    main()
