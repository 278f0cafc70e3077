"""Who programs are in the sandbox: never root, each guard also with the other one switched off."""

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from deep_folders import deepen, removed_again
from enclosure import needs_bubblewrap

from perdure.adapters.files.rooted_files import MOST_LEVELS
from perdure.adapters.sandbox import bubblewrap, identity, process
from perdure.adapters.sandbox.commands import SYSTEM_PATH, Allowance, LocalCommands
from perdure.domain.evaluation.program_checks import Command, Ran
from perdure.domain.foundation.errors import NotAllowed

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="the worker is no root here")
# What access(2) says is writable of the kernel's files; nothing is written.
WRITABLE = "find /proc -path '/proc/[0-9]*' -prune -o -type f -writable -print 2>/dev/null | sort"
# World-writable everywhere and harmless, or the own process by another name.
OWN = ("/proc/self", "/proc/thread-self", "/proc/net", "/proc/pressure/")
OF_THE_NAMESPACE = "/proc/sys/kernel/ns_last_pid"


async def run(script: str, folder: Path) -> Ran:
    allowed = Allowance(commands=("sh",), timeout_s=30.0, search=SYSTEM_PATH)
    return await LocalCommands(allowed).run(
        Command(argv=("sh", "-c", script), folder=str(folder), output="given")
    )


def keep_root(patch: pytest.MonkeyPatch) -> None:
    """Let programs be the worker's user, as where the worker is not root."""
    patch.setattr(bubblewrap, "is_root", lambda: False)
    patch.setattr(identity, "is_root", lambda: False)
    patch.setattr(process, "separate_user", lambda: None)


def uncover(patch: pytest.MonkeyPatch) -> None:
    """Leave the kernel's folders as bubblewrap leaves them."""
    patch.setattr(bubblewrap, "_KERNEL", ())


@needs_bubblewrap
@pytest.mark.parametrize("layer_off", [None, keep_root, uncover], ids=["none", "user", "cover"])
async def test_settings_of_the_kernel_cannot_be_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layer_off: Callable[[pytest.MonkeyPatch], None] | None,
) -> None:
    if layer_off is not None:
        layer_off(monkeypatch)
    ran = await run(WRITABLE, tmp_path)
    found = [path for path in ran.out.split() if not path.startswith((*OWN, OF_THE_NAMESPACE))]
    assert ran.code == 0, ran.err
    assert [path for path in found if path.startswith(("/proc/sys/", "/proc/irq/"))] == []
    if layer_off is not keep_root:
        assert found == []


@needs_bubblewrap
@only_root
async def test_programs_of_a_root_worker_are_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "given.txt").write_text("given\n")
    (tmp_path / "given.txt").chmod(0o600)
    script = (
        'id -u; id -g; cat given.txt "$0"; echo x > new.txt; echo said > /dev/stderr; ls /proc/1'
    )
    allowed = Allowance(commands=("sh",), timeout_s=30.0, search=SYSTEM_PATH)
    argv = ("sh", "-c", script, "{output}")
    ran = await LocalCommands(allowed).run(Command(argv=argv, folder=str(tmp_path), output="text"))
    assert ran.out.split() == [str(identity.STRANGER), str(identity.STRANGER), "given", "text"]
    assert (ran.code, ran.err) == (0, "said\n")
    assert (tmp_path / "new.txt").stat().st_uid == identity.STRANGER


@needs_bubblewrap
@only_root
async def test_root_is_not_had_back(tmp_path: Path) -> None:
    script = (
        "python3 -c 'import os; os.setuid(0)'; setpriv --reuid=0 id -u; grep Cap[PE] "
        "/proc/self/status; cat /proc/1/environ; unshare -Ur id -u"
    )
    ran = await run(script, tmp_path)
    assert "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n" in ran.out
    assert "\n0\n" not in f"\n{ran.out}"


def test_where_root_cannot_be_left_behind_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "is_root", lambda: True)
    monkeypatch.setattr(identity, "TOOLS", str(tmp_path))
    with pytest.raises(NotAllowed, match=r"runs as root.*ordinary user"):
        identity.becoming(processes=1)


@needs_bubblewrap
@only_root
async def test_where_root_cannot_be_left_behind_nothing_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "TOOLS", str(tmp_path))
    with pytest.raises(NotAllowed, match="runs as root"):
        await run("id -u", tmp_path)


@only_root
def test_only_the_copy_is_handed_over(tmp_path: Path) -> None:
    copy, beside = tmp_path / "copy", tmp_path / "beside"
    for place in (copy / "deep", beside):
        place.mkdir(parents=True)
    (beside / "mine").write_text("mine")
    (copy / "deep" / "file").write_text("file")
    (copy / "folder").symlink_to(beside)
    (copy / "link").symlink_to(beside / "mine")
    os.link(beside / "mine", copy / "same")
    identity.hand_over(str(copy))
    owners = {path.name: path.stat().st_uid for path in (copy, copy / "deep", copy / "deep/file")}
    assert set(owners.values()) == {identity.STRANGER}
    assert {beside.stat().st_uid, (beside / "mine").stat().st_uid} == {0}


def test_a_deep_copy_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "separate_user", os.geteuid)
    with removed_again(tmp_path / "copy") as folder:
        deepen(folder)
        identity.hand_over(str(folder))


def test_a_file_counts_however_deep_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "COUNTING_S", math.inf)
    deepen(tmp_path, levels=MOST_LEVELS + 2, content=bytes(1 << 20))
    assert process._size(str(tmp_path)) >= 1 << 20
