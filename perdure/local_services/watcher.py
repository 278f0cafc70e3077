"""The watcher process: it sleeps until the supervisor dies, then restarts it.

Run as a script, `python -I -S watcher.py HOME SUPERVISOR_PID DEATHS`, without importing anything of
Perdure. Its standard input is a pipe whose other end the supervisor alone holds: a word in it means
that the supervisor ends in order, its end without a word that it died. The watcher then waits, a
little longer after each death, and becomes the new supervisor, which starts a watcher of its own.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

MODULE = "perdure.local_services"
BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 300.0
STEADY_AFTER_S = 600.0


def main() -> None:
    home, supervisor, deaths = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the supervisor to obey
    began = time.monotonic()
    if sys.stdin.buffer.read():
        return
    if time.monotonic() - began > STEADY_AFTER_S:
        deaths = 0
    time.sleep(min(BACKOFF_FIRST_S * 2 ** min(deaths, 16), BACKOFF_MAX_S))
    # Looked at after the wait: `up` or `down` may have been said meanwhile.
    if is_wanted(home, supervisor, deaths):
        said = {"event": "supervisor_died", "process": supervisor, "deaths": deaths + 1}
        print(json.dumps(said | {"level": "warning"}), flush=True)  # noqa: T201 - it is the log
        os.execv(sys.executable, [sys.executable, "-P", "-m", MODULE, str(deaths + 1)])


def is_wanted(home: Path, supervisor: int, deaths: int) -> bool:
    """Whether the state file still names the dead process, which had brought its services up.

    Who waits for a first start is told that it failed, and nothing comes up behind their back; a
    start that the watcher made is tried again.
    """
    try:
        state = json.loads((home / "state.json").read_text(encoding="utf-8"))
        named, status = state["supervisor"]["pid"], state["status"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return named == supervisor and (status != "starting" or deaths > 0)


if __name__ == "__main__":
    main()
