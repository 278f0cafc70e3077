"""A workspaces adapter, and a git repository of a user."""

import os
import subprocess

import pytest
from memory_blobs import MemoryBlobs

from perdure.adapters.workspaces.local import LocalWorkspaces

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


@pytest.fixture
def blobs():
    return MemoryBlobs()


@pytest.fixture
def workspaces(tmp_path, blobs):
    return LocalWorkspaces(tmp_path / "home", blobs)


@pytest.fixture
def folder(tmp_path):
    """A user's plain folder."""
    made = tmp_path / "user"
    (made / "src").mkdir(parents=True)
    (made / "src" / "main.py").write_text("print(1)\n")
    (made / "readme.md").write_text("# Read me\n")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    (made / "link").symlink_to("readme.md")
    return made


@pytest.fixture
def git(folder):
    """Plain git in the user's folder."""

    def run(*arguments, cwd=folder, data=None):
        return subprocess.run(
            ["git", "-c", "user.name=n", "-c", "user.email=n@example.org", *arguments],
            cwd=cwd, env=ENVIRONMENT, check=True, capture_output=True, input=data,
        ).stdout.decode()  # fmt: skip

    return run


@pytest.fixture
def repository(folder, git):
    """The user's folder as a repository with uncommitted, untracked and ignored files."""
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    (folder / "gone.txt").write_text("to be deleted\n")
    git("init", "-q", "-b", "main")
    git("add", "-A")
    git("commit", "-q", "-m", "first")
    (folder / "readme.md").write_text("# Changed, not committed\n")
    (folder / "new.txt").write_text("untracked\n")
    (folder / "gone.txt").unlink()
    (folder / "debug.log").write_text("ignored\n")
    (folder / "build").mkdir()
    (folder / "build" / "out").write_text("ignored\n")
    return folder
