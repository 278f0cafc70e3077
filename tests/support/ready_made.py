"""Ready-made tasks in tests: their examples laid out, and a worker that may run their programs."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from installation import Installation

from perdure.adapters.definitions.example_files import lay_out
from perdure.interfaces.definitions import DEFINITIONS, EXAMPLE, example_folder
from perdure.submission.loading import load
from perdure.submission.types import Flags, Submission, Surroundings

PROGRAMS = ("pytest", "ruff")


async def example(name: str, folder: Path) -> Submission:
    """The task with its example, laid out below `folder`."""
    laid_out = folder / f"{name}-example"
    await lay_out(example_folder(name), laid_out)
    surroundings = Surroundings(folder=folder, definitions=DEFINITIONS)
    return load(name, Flags(example=laid_out / EXAMPLE), surroundings=surroundings)


@asynccontextmanager
async def programs_allowed(
    bare: Installation, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Installation]:
    """An installation whose worker may run the programs of the examples, found beside Python."""
    beside = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", os.pathsep.join([beside, os.environ["PATH"]]))
    async with bare.worker(allow_commands=PROGRAMS, plain_commands=PROGRAMS):
        yield bare
