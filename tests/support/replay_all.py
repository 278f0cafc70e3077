"""Replays every history of a folder and prints where the importable code departs from it."""

import asyncio
import sys
from pathlib import Path

from faithful import problems


def histories(folder: Path) -> dict[str, bytes]:
    """The recorded histories, by name."""
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.json"))}


async def main(folder: Path) -> int:
    found = [f"{name}: {why}" async for name, why in problems(histories(folder)) if why]
    sys.stdout.write("\n".join(found) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(Path(sys.argv[1]))))
