"""Tests as a user whom permissions bind: root may open every file and folder."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


@contextmanager
def unprivileged() -> Generator[Path]:
    """Give a folder of one's own, and the rights of an ordinary user inside the block."""
    user = os.geteuid()
    # Not below pytest's own folders, which are closed to others.
    folder = Path(tempfile.mkdtemp(prefix="perdure-unprivileged-"))
    if user == 0:
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        if user == 0:
            os.seteuid(user)
        subprocess.run(["chmod", "-R", "u+rwx", str(folder)], check=True)
        shutil.rmtree(folder)
