"""Folders many levels deep, which neither pytest nor `shutil.rmtree` could remove again."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from perdure.adapters.files.rooted_files import RootedDirectory

LEVELS = 1_100


def deepen(
    folder: str | os.PathLike[str], *, levels: int = LEVELS, content: bytes = b"deep"
) -> None:
    """Make folders inside each other, with a file in the last."""
    with (
        RootedDirectory(folder) as files,
        files.folder(("a",) * levels, create=True) as last,
    ):
        files.replace(last, "f.txt", content)


@contextmanager
def removed_again(folder: Path) -> Generator[Path]:
    """A new folder that goes after the block with all in it, however deep."""
    folder.mkdir()
    try:
        yield folder
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
