"""The child process: reads one task from standard input and writes its result."""

import json
import sys

from perdure.adapters.bounded_process.tasks import TASKS


def main() -> None:
    """Do the one task. Any error ends the process, and its last line says why."""
    name, *given = json.load(sys.stdin.buffer)
    json.dump(TASKS[name].work(*given), sys.stdout)


if __name__ == "__main__":
    main()
