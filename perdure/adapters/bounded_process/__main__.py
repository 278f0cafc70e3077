"""The other end: reads one task from its input, and writes what came of it."""

import json
import sys

from perdure.adapters.bounded_process.tasks import TASKS


def main() -> None:
    """Do the one task; whatever goes wrong ends the process, and is told by its last line."""
    name, *given = json.load(sys.stdin.buffer)
    json.dump(TASKS[name].work(*given), sys.stdout)


if __name__ == "__main__":
    main()
