"""A git process, with its children, is gone on every exit."""

import asyncio
import os
import tempfile

import psutil
import pytest
from enclosure import needs_bubblewrap

from perdure.adapters.git import run_git
from perdure.adapters.sandbox import bubblewrap
from perdure.domain.foundation.errors import ServiceUnavailable, ToolFailure


@pytest.fixture
def endless(tmp_path, monkeypatch):
    """In place of git: a program that starts a child and never ends, and says who they are."""
    program = tmp_path / "git"
    pids = tmp_path / "pids"
    os.mkfifo(pids)
    program.write_text(f'#!/bin/sh\nsleep 600 &\necho "$$ $!" > {pids}\nwait\n')
    program.chmod(0o755)
    monkeypatch.setattr(run_git, "binary", lambda: str(program))
    return pids


async def test_cancellation_ends_the_whole_group(endless, tmp_path):
    running = asyncio.create_task(run_git.run_git(["log"], cwd=str(tmp_path), may_write=True))
    text = await asyncio.to_thread(endless.read_text)
    parent, child = map(int, text.split())
    assert psutil.pid_exists(child)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not psutil.pid_exists(parent)
    # The child belongs to init by now, which may take a moment to bury it.
    _, alive = psutil.wait_procs(_living(child), timeout=10)
    assert not alive


async def test_a_missing_git_is_explained(tmp_path, monkeypatch):
    monkeypatch.setattr(run_git, "SEARCH_PATH", str(tmp_path))
    with pytest.raises(ToolFailure, match="git is not installed") as caught:
        await run_git.run_git(["log"], cwd=str(tmp_path))
    assert caught.value.reason == "unavailable"


@needs_bubblewrap
async def test_a_repository_in_memory_is_read_too():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        await run_git.run_git(["init", "--quiet", "."], cwd=folder, may_write=True)
        done = await run_git.run_git(["status", "--short"], cwd=folder, view=[folder])
    assert done.code == 0, done


@pytest.mark.parametrize("cut", ["exec sleep 60", "kill -9 $$"], ids=["slow", "killed"])
async def test_without_an_answer_of_the_sandbox_git_is_not_run(tmp_path, monkeypatch, cut):
    sandbox = _program(tmp_path / "bwrap", cut)
    ran = tmp_path / "ran"
    git = _program(tmp_path / "git", f"touch {ran}")
    monkeypatch.setattr(run_git, "binary", lambda: str(git))
    monkeypatch.setattr(bubblewrap, "SEARCH", str(tmp_path))
    monkeypatch.setattr(bubblewrap, "_probed", {})
    with monkeypatch.context() as busy:
        busy.setattr(bubblewrap, "PROBE_S", 0.2 if "sleep" in cut else 20.0)
        with pytest.raises(ServiceUnavailable, match="gave no answer"):
            await run_git.run_git(["log"], cwd=str(tmp_path), view=[str(tmp_path)])
    assert not ran.exists()
    _program(sandbox, "exit 0")
    assert (await bubblewrap.enclosure([], cwd="/", environment={}))[0] == str(sandbox)


def _program(path, script):
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def _living(pid):
    try:
        found = psutil.Process(pid)
        return [] if found.status() == psutil.STATUS_ZOMBIE else [found]
    except psutil.NoSuchProcess:
        return []
