"""A folder on a small disk of its own, which a test can fill to the last byte."""

import errno
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

DISK_MIB = 64
BLOCK = bytes(4096)


class SmallDisk:
    """A disk mounted at a folder."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Leave no byte free (blocking)."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while file.write(BLOCK):
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def make_room(self) -> None:
        """Free what was filled."""
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path) -> Generator[SmallDisk]:
    """Mount a disk of some MiB at a new folder; skips the test where nobody may mount."""
    folder.mkdir(parents=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a disk, and not in every container")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
