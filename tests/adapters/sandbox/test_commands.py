"""Programs of a rubric: what the sandbox lets them do, what it does not, and who may run at all."""

import asyncio
import os
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from enclosure import left, listening, needs_bubblewrap

from perdure.adapters.sandbox.bubblewrap import homes_of
from perdure.adapters.sandbox.commands import SYSTEM_PATH, Allowance, LocalCommands, Script
from perdure.adapters.sandbox.process import _descendants, _memory
from perdure.domain.evaluation.program_checks import Command, Ran
from perdure.domain.foundation.errors import NotAllowed
from perdure.domain.tools.selection import SHELL_FULL

SECRET = "canary-7f3a"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "copy"
    made.mkdir()
    (made / "given.txt").write_text("given\n")
    return made


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A secret in the environment and in a file beside the folder."""
    monkeypatch.setenv("PERDURE_TEST_SECRET", SECRET)
    file = tmp_path / "secret.txt"
    file.write_text(SECRET)
    return file


def enclosed(**allowed: object) -> LocalCommands:
    settings = {"commands": ("sh", "python3"), "timeout_s": 20.0, "search": SYSTEM_PATH} | allowed
    return LocalCommands(Allowance(**settings))  # pyright: ignore[reportArgumentType]


async def sh(script: str, folder: Path, *, timeout_s: float | None = None) -> Ran:
    command = Command(
        argv=("sh", "-c", script), folder=str(folder), output="the text", timeout_s=timeout_s
    )
    return await enclosed().run(command)


@needs_bubblewrap
async def test_a_program_gets_the_files_and_the_text(folder: Path) -> None:
    command = Command(
        argv=("sh", "-c", 'cat given.txt "$0" - ; echo made > made.txt; pwd', "{output}"),
        folder=str(folder),
        output="the text\n",
    )
    ran = await enclosed().run(command)
    assert (ran.code, ran.out) == (0, "given\nthe text\nthe text\n/perdure/copy\n")
    assert (folder / "made.txt").read_text() == "made\n"


ATTACKS = {
    "the worker's environment": "cat /proc/*/environ | tr '\\0' '\\n'; env",
    "a file beside the folder": "cat {secret}",
    "the home folder": "cat ~/.ssh/* ~root/.bashrc ~root/.perdure/*",
    "passwords": "cat /etc/shadow",
    "the parent folder": "cat /perdure/../secret.txt ../secret.txt; ls -la /perdure",
    "other processes": "cat /proc/{pid}/cmdline /proc/{pid}/environ; ls -d /proc/{pid}",
    "inherited descriptors": "cat <&3 <&4 <&5 <&6 <&7 <&8 <&9",
}


@needs_bubblewrap
@pytest.mark.parametrize("script", [pytest.param(text, id=name) for name, text in ATTACKS.items()])
async def test_a_program_reads_nothing_else(folder: Path, secret: Path, script: str) -> None:
    given = script.replace("{secret}", str(secret)).replace("{pid}", str(os.getpid()))
    ran = await sh(given, folder)
    assert SECRET not in ran.out + ran.err
    assert f"/proc/{os.getpid()}\n" not in ran.out
    assert "root:" not in ran.out


@needs_bubblewrap
@pytest.mark.parametrize(
    "place", ["/usr/pwned", "/etc/pwned", "/bin/pwned", "/proc/sys/kernel/hostname", "{beside}"]
)
async def test_a_program_writes_nowhere_else(folder: Path, place: str) -> None:
    beside = folder.parent / "pwned"
    await sh(f"echo pwned > {place.replace('{beside}', str(beside))}", folder)
    assert not beside.exists()
    assert not any(Path(path).exists() for path in ("/usr/pwned", "/etc/pwned", "/bin/pwned"))
    assert Path("/proc/sys/kernel/hostname").read_text(encoding="utf-8") != "pwned\n"


@needs_bubblewrap
async def test_a_program_reaches_no_network_not_even_loopback(folder: Path) -> None:
    reachable = enclosed(search=f"{os.path.dirname(sys.executable)}:{SYSTEM_PATH}")
    async with listening() as listener:
        argv = ("python3", "-c", listener.program)
        ran = await reachable.run(Command(argv=argv, folder=str(folder)))
    assert ran.code == 1, ran.err
    assert "refused" in ran.err
    assert listener.calls == 0


@needs_bubblewrap
async def test_the_network_is_granted_to_a_program_and_what_it_starts_and_to_no_other(
    folder: Path,
) -> None:
    search = f"{os.path.dirname(sys.executable)}:{SYSTEM_PATH}"
    granted = enclosed(search=search, networked=("python3",))
    async with listening() as listener:
        by_name = listener.program.replace("127.0.0.1", "localhost")
        (folder / "by_name.py").write_text(by_name)
        starting = 'import subprocess; subprocess.run(["python3", "by_name.py"], check=True)'
        ran = await granted.run(Command(argv=("python3", "-c", starting), folder=str(folder)))
        assert ran.code == 0, ran.err
        assert listener.calls == 1
        (folder / "call.py").write_text(listener.program)
        ran = await granted.run(Command(argv=("sh", "-c", "python3 call.py"), folder=str(folder)))
        assert ran.code == 1
        shell = enclosed(commands=("shell.full", "python3"), search=search, networked=("python3",))
        ran = await shell.run_shell(Script(text="python3 call.py", folder=str(folder)))
        assert ran.code == 1
        shell = enclosed(commands=("shell.full", "python3"), search=search, networked=(SHELL_FULL,))
        ran = await shell.run_shell(Script(text="python3 call.py", folder=str(folder)))
        assert ran.code == 0, ran.err
        assert listener.calls == 2


@needs_bubblewrap
async def test_a_grant_of_the_network_opens_nothing_else(folder: Path, secret: Path) -> None:
    granted = enclosed(networked=("sh",))
    script = f"env; cat {secret} /etc/shadow /etc/ssl/private/*; grep CapEff /proc/self/status"
    ran = await granted.run(Command(argv=("sh", "-c", script), folder=str(folder)))
    assert SECRET not in ran.out
    assert "PERDURE" not in ran.out
    assert "root:" not in ran.out
    assert "CapEff:\t0000000000000000" in ran.out


@needs_bubblewrap
async def test_no_further_namespaces_and_no_capabilities(folder: Path) -> None:
    ran = await sh("unshare -Ur true; grep CapEff /proc/self/status", folder)
    assert "CapEff:\t0000000000000000" in ran.out
    assert "unshare" in ran.err


@needs_bubblewrap
async def test_what_is_forked_ends_with_the_program(folder: Path) -> None:
    script = "i=0; while [ $i -lt 40 ]; do setsid sleep 61.0{mark} & i=$((i+1)); done; exit 3"
    mark = f"{os.getpid()}1"
    ran = await sh(script.replace("{mark}", mark), folder)
    assert ran.code == 3
    assert left(f"61.0{mark}") == []


@needs_bubblewrap
async def test_time_ends_a_program_with_its_children(folder: Path) -> None:
    mark = f"{os.getpid()}2"
    began = time.monotonic()
    ran = await sh(f"trap '' TERM; setsid sleep 62.0{mark} & sleep 62.0{mark}", folder, timeout_s=1)
    assert ran.code is None
    assert time.monotonic() - began < 30
    assert left(f"62.0{mark}") == []


@needs_bubblewrap
async def test_a_cancellation_ends_a_program(folder: Path) -> None:
    mark = f"{os.getpid()}3"
    running = asyncio.ensure_future(sh(f"sleep 63.0{mark}; true", folder))
    while not left(f"63.0{mark}"):
        await asyncio.sleep(0.02)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert left(f"63.0{mark}") == []


@needs_bubblewrap
async def test_endless_output_is_cut_and_said(folder: Path) -> None:
    ran = await sh("echo begin; head -c 200000000 /dev/zero | tr '\\0' x; echo end", folder)
    assert ran.code == 0
    assert len(ran.out) < 51_000
    assert ran.out.startswith("begin\n")
    assert ran.out.endswith("xend\n")
    assert "bytes left out" in ran.out


@needs_bubblewrap
async def test_a_file_has_a_largest_size(folder: Path) -> None:
    ran = await sh("dd if=/dev/zero of=big bs=1M count=400 2>/dev/null", folder)
    assert ran.code != 0
    assert (folder / "big").stat().st_size <= 256 << 20


@pytest.mark.parametrize(
    ("allowance", "program", "said"),
    [
        pytest.param(Allowance(commands=("pytest",)), "sh", "allowed: pytest", id="not named"),
        pytest.param(Allowance(), "sh", "allowed: none", id="nothing named"),
        pytest.param(
            Allowance(commands=("no-such-thing",)), "no-such-thing", "not installed", id="missing"
        ),
    ],
)
async def test_only_what_the_worker_names_may_run(
    folder: Path, allowance: Allowance, program: str, said: str
) -> None:
    with pytest.raises(NotAllowed, match=said):
        await LocalCommands(allowance).run(Command(argv=(program,), folder=str(folder)))
    with pytest.raises(NotAllowed, match=said):
        await LocalCommands(allowance).admit(program)


def links(tmp_path: Path, *names: str) -> str:
    """A folder that holds these programs only."""
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in names:
        found = shutil.which(name, path=SYSTEM_PATH)
        assert found is not None
        (bare / name).symlink_to(found)
    return str(bare)


async def test_without_bubblewrap_nothing_runs_unless_it_is_named_as_plain(
    folder: Path, tmp_path: Path, secret: Path
) -> None:
    search = links(tmp_path, "sh", "cat")
    command = Command(
        argv=("sh", "-c", "cat given.txt; echo $PERDURE_TEST_SECRET"), folder=str(folder)
    )
    with pytest.raises(NotAllowed, match="bubblewrap is not installed"):
        await LocalCommands(Allowance(commands=("sh",), search=search)).run(command)
    with pytest.raises(NotAllowed, match="PERDURE_PLAIN_COMMANDS"):
        await LocalCommands(Allowance(commands=("sh",), search=search)).admit("sh")
    plain = Allowance(commands=("sh",), plain=("sh",), search=search)
    await LocalCommands(plain).admit("sh")
    ran = await LocalCommands(plain).run(command)
    assert (ran.code, ran.out) == (0, "given\n\n")


@pytest.mark.parametrize("order", [("shims", "real"), ("real", "shims")])
async def test_a_program_comes_before_the_shim_of_a_version_manager(
    folder: Path, tmp_path: Path, order: tuple[str, str]
) -> None:
    for place in order:
        (tmp_path / place).mkdir()
        program = tmp_path / place / "tool"
        program.write_text(f"#!/bin/sh\necho {place}\n")
        program.chmod(0o755)
    search = os.pathsep.join(str(tmp_path / place) for place in order)
    allowance = Allowance(commands=("tool",), plain=("tool",), search=search)
    ran = await LocalCommands(allowance).run(Command(argv=("tool",), folder=str(folder)))
    assert (ran.code, ran.out) == (0, "real\n")


async def test_a_plain_program_needs_nothing_that_linux_alone_has(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    plain = Allowance(commands=("sh",), plain=("sh",), search=links(tmp_path, "sh", "sleep"))
    command = Command(argv=("sh", "-c", "sleep 0.3; echo here"), folder=str(folder), output="")
    ran = await LocalCommands(plain).run(command)
    assert (ran.code, ran.out) == (0, "here\n")


@pytest.mark.parametrize("facts", [SimpleNamespace(rss=7), SimpleNamespace(rss=9, shared=2)])
def test_memory_is_counted_without_the_files_of_linux(
    facts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = psutil.Process()
    monkeypatch.setattr(process, "_pid", 0)  # of which /proc says nothing
    monkeypatch.setattr(process, "memory_info", lambda: facts)
    assert _memory(process) == 7


async def test_a_plain_program_ends_with_its_children(folder: Path, tmp_path: Path) -> None:
    mark = f"{os.getpid()}4"
    plain = Allowance(commands=("sh",), plain=("sh",), search=links(tmp_path, "sh", "sleep"))
    script = f"sleep 64.0{mark} & sleep 64.0{mark}"
    command = Command(argv=("sh", "-c", script), folder=str(folder), timeout_s=1)
    ran = await LocalCommands(plain).run(command)
    assert ran.code is None
    assert left(f"64.0{mark}") == []


async def test_a_sandbox_that_does_not_work_is_none(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "bin"
    broken.mkdir()
    (broken / "bwrap").write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
    (broken / "bwrap").chmod(0o755)
    allowance = Allowance(commands=("sh",), search=f"{broken}:/bin:/usr/bin")
    with pytest.raises(NotAllowed, match="no namespaces here"):
        await LocalCommands(allowance).run(Command(argv=("sh",), folder=str(folder)))


@pytest.mark.parametrize("plain", [(), ("sh",)], ids=["enclosed", "plain"])
async def test_a_slow_probe_is_no_answer(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: tuple[str, ...]
) -> None:
    _program(tmp_path / "bin" / "bwrap", "#!/bin/sh\nexec sleep 60\n")
    search = f"{tmp_path / 'bin'}:/bin:/usr/bin"
    allowance = Allowance(commands=("sh", SHELL_FULL), plain=plain, search=search)
    commands = LocalCommands(allowance)
    with monkeypatch.context() as busy:
        busy.setattr("perdure.adapters.sandbox.commands.PROBE_S", 0.2)
        with pytest.raises(NotAllowed, match=r"gave no answer within 0\.2 s.*Try again"):
            await commands.run(Command(argv=("sh",), folder=str(folder)))
        assert "Try again" in await commands.shell_obstacle()
    _program(tmp_path / "bin" / "bwrap", "#!/bin/sh\nexit 0\n")
    assert await commands.shell_obstacle() == ""
    await commands.admit("sh")


def _program(path: Path, text: str = "#!/bin/sh\necho ran\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_program_among_others_makes_only_itself_readable(tmp_path: Path) -> None:
    local = tmp_path / ".local"
    (local / "share" / "keyrings").mkdir(parents=True)
    (local / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
    tool = _program(local / "bin" / "tool")
    assert homes_of(tool) == (tool,)
    (local / "lib" / "python3.11" / "os.py").touch()
    assert set(homes_of(tool)) == {tool, str(local / "lib" / "python3.11")}


def test_an_own_installation_is_readable_as_a_whole(tmp_path: Path) -> None:
    prefix = tmp_path / "versions" / "3.11.7"
    (prefix / "lib" / "python3.11").mkdir(parents=True)
    (prefix / "lib" / "python3.11" / "os.py").touch()
    python = _program(prefix / "bin" / "python3")
    script = _program(tmp_path / ".local" / "bin" / "script", f"#!{python}\n")
    assert homes_of(python) == (str(prefix),)
    assert set(homes_of(script)) == {script, str(prefix)}


@needs_bubblewrap
async def test_the_neighbours_of_a_program_stay_unread(folder: Path, tmp_path: Path) -> None:
    local = tmp_path / ".local"
    (local / "lib").mkdir(parents=True)
    (local / "secret").write_text(SECRET, encoding="utf-8")
    _program(local / "bin" / "tool", f"#!/bin/sh\ncat {local}/secret\necho ran\n")
    allowed = Allowance(commands=("tool",), search=f"{local / 'bin'}:{SYSTEM_PATH}")
    ran = await LocalCommands(allowed).run(Command(argv=("tool",), folder=str(folder)))
    assert (SECRET in ran.out, "ran" in ran.out) == (False, True)


def test_a_child_that_ends_while_it_is_looked_at_hides_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Child:
        def __init__(self, status: str | None) -> None:
            self._status = status

        def status(self) -> str:
            if self._status is None:
                raise psutil.NoSuchProcess(1)
            return self._status

    gone, ended, alive = Child(None), Child(psutil.STATUS_ZOMBIE), Child(psutil.STATUS_SLEEPING)
    family = SimpleNamespace(children=lambda recursive: [gone, ended, alive] if recursive else [])
    monkeypatch.setattr(psutil, "Process", lambda pid: family)
    assert _descendants(1) == [alive]
