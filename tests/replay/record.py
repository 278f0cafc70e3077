"""Plays the scenes of `kept_scenes.py` and `kept_teams.py` and keeps their histories.

`make record` runs it. What is kept of a scene: the history of each of its executions, and beside it
what the run itself told at that end, query by query. Nothing of the machine that recorded is kept.
"""

import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ends import as_json
from installation import Installation, dev_server, installation
from invariants import executions
from kept_others import EXPERIMENTS, THEIRS
from kept_scenes import Scene
from kept_teams import ALL_SCENES
from recordings import EXPECTED, FOLDER, FOLDER_OF_THEIRS
from scrubbing import scrubbed

from perdure.about import VERSION
from perdure.domain.run.messages import EventsQuery
from perdure.domain.run.spec import Timing

Files = Mapping[str, str]
ASKED = {"status": (), "costs": (), "history": (), "events": (EventsQuery(),)}
ROOT = Path(__file__).parents[2]


async def play(name: str, scene: Scene, site: Installation) -> Files:
    """Play one scene; returns the files to keep of it."""
    run = await scene.start(site, name)
    await scene.steer(site, run)
    result = await site.gateway.result(run)
    if (result.outcome, result.reason) != scene.ends:
        raise AssertionError(f"{name} ended {result.outcome}/{result.reason}, not {scene.ends}")
    histories = await executions(site, run)
    files: dict[str, str] = {}
    for number, history in enumerate(histories, start=1):
        file = name if len(histories) == 1 else f"{name}-{number}"
        files[f"{file}.json"] = _kept(json.loads(history.to_json()), site)
        handle = site.client.get_workflow_handle(run, run_id=history.run_id)
        told = {
            query: as_json(query, await handle.query(query, *args)) for query, args in ASKED.items()
        }
        files[f"{file}{EXPECTED}"] = _kept(told, site)
    return files


async def _other(name: str, site: Installation) -> Files:
    """A workflow that is no loop: its history alone."""
    played = {**EXPERIMENTS, **THEIRS}[name]
    return {f"{name}.json": _kept(json.loads((await played(site, name)).to_json()), site)}


def _kept(value: dict[str, object], site: Installation) -> str:
    """The compact JSON of a value, without places and names of this machine."""
    text = scrubbed(value, str(site.home))
    return text.replace(str(ROOT), "/perdure").replace(sys.base_prefix, "/python")


async def main(names: list[str]) -> None:
    """Record all scenes, or those that are named."""
    logging.disable(logging.WARNING)  # failing models are part of the play
    async with dev_server() as server:
        address = server.client.service_client.config.target_host
        for name in names or (*ALL_SCENES, *EXPERIMENTS, *THEIRS):
            scene = ALL_SCENES.get(name)
            timing = scene.timing if scene else Timing()
            with tempfile.TemporaryDirectory() as home:
                async with (
                    installation(Path(home) / "home", address, timing=timing) as site,
                    site.worker(),
                ):
                    files = await (play(name, scene, site) if scene else _other(name, site))
            folder = FOLDER_OF_THEIRS if name in THEIRS else FOLDER / VERSION
            folder.mkdir(parents=True, exist_ok=True)
            for old in (*folder.glob(f"{name}.*"), *folder.glob(f"{name}-[0-9]*")):
                old.unlink()
            for file, content in files.items():
                (folder / file).write_text(content)
            sys.stdout.write(f"{name}: {', '.join(files)}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
