"""Replays recordings with the code of one folder, and prints name and problem as JSON.

Arguments: the folder, and the names of recordings; all are replayed where none is named.
"""

import asyncio
import json
import sys
from pathlib import Path

from recordings import departures, recordings

import perdure
import perdure.workflows


async def main(folder: Path, *names: str) -> None:
    """Print what departs; the code must come from `folder`, or nothing would be proved."""
    for package in (perdure, perdure.workflows):
        place = package.__name__.count(".") + 1
        found = Path(str(package.__file__)).parents[place]
        if found != folder:
            raise SystemExit(f"{package.__name__} was loaded from {found}, not from {folder}")
    chosen = [one for one in recordings() if not names or one.name in names]
    if len(chosen) < len(names):
        raise SystemExit(f"not all of these are recorded: {', '.join(names)}")
    departed = {name: why async for name, why in departures(chosen)}
    sys.stdout.write(json.dumps(departed))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
