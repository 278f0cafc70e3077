"""`shell.full`: what it can do on the working copy, and what no command line can do."""

import os
import sys
from pathlib import Path

import pytest
from deep_folders import deepen
from enclosure import left, listening, needs_bubblewrap
from pydantic import JsonValue
from unprivileged import unprivileged

from perdure.adapters.files.rooted_files import MOST_LEVELS
from perdure.adapters.sandbox.commands import SYSTEM_PATH, Allowance, LocalCommands
from perdure.adapters.sandbox.process import Caps
from perdure.adapters.tools.host import LocalToolHost
from perdure.adapters.tools.shell.full import _withheld, shell_full
from perdure.domain.foundation.errors import ToolFailure
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation, ToolOutput
from perdure.domain.tools.selection import select

SECRET = "canary-91bc"
PYTHON = f"{os.path.dirname(os.path.realpath(sys.executable))}:{SYSTEM_PATH}"
ALLOWED = Allowance(commands=("shell.full", "python3"), timeout_s=20.0, search=PYTHON)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "copy"
    made.mkdir()
    (made / "given.txt").write_text("given\n")
    (made / ".env").write_text(SECRET)
    (made / "deploy").mkdir()
    (made / "deploy" / "prod.env").write_text(SECRET)
    for hidden in (
        "venv/.env",
        "node_modules/package/.env",
        "deploy/.Env",
        "deploy/keys.env/token",
        "vendor/.git/.env",
    ):
        (made / hidden).parent.mkdir(parents=True, exist_ok=True)
        (made / hidden).write_text(SECRET)
    (made / ".git").write_text("gitdir: elsewhere\n")
    (tmp_path / "secret.txt").write_text(SECRET)
    return made


def _host(allowance: Allowance) -> LocalToolHost:
    commands = LocalCommands(allowance)
    tool = shell_full(commands, timeout_s=allowance.timeout_s)
    return LocalToolHost([tool], obstacles={"shell.full": commands.shell_obstacle})


async def _call(
    folder: Path,
    command: str,
    *,
    allowance: Allowance = ALLOWED,
    limit_s: float | None = None,
    writable: bool = True,
) -> ToolOutput:
    arguments: dict[str, JsonValue] = {"command": command}
    if limit_s is not None:
        arguments["limit_s"] = limit_s
    envelope = ToolInvocation(
        run="r", call_id="c", idempotency_key="k", name="shell.full", arguments=arguments
    )
    grant = ToolGrant(root=str(folder), writable=writable, level="full", allowed=("shell.full",))
    return await _host(allowance).call(envelope, grant)


@needs_bubblewrap
async def test_it_works_on_the_copy_with_pipes_and_programs(folder: Path) -> None:
    output = await _call(folder, "pwd; wc -l < given.txt | tr -d ' '; echo new > made.txt; false")
    first, *rest = output.text.splitlines()
    assert output.outcome == "ok"
    assert first.startswith("[exit code 1; ")
    assert rest == ["[output]", "/perdure/copy", "1"]
    assert (folder / "made.txt").read_text() == "new\n"
    said = await _call(folder, "python3 -c 'print(6 * 7)'; echo oops >&2")
    assert said.text.endswith("[output]\n42\n[errors]\noops")


READING = {
    "environment": "env; cat /proc/*/environ | tr '\\0' '\\n'",
    "dotenv": "cat .env; cat < .env; cp .env x && cat x; grep -r canary .",
    "dotenv below": "cat deploy/prod.env; dd if=deploy/prod.env",
    "dotenv of packages": "cat venv/.env node_modules/*/.env deploy/.Env; cp -r . /tmp/x; "
    "grep -r . /tmp/x",
    "dotenv by another name": "mv .env seen.txt; ln .env seen2.txt; cat seen.txt seen2.txt",
    "folder of a dotenv name": "cat deploy/keys.env/*; mv deploy/keys.env deploy/keys; "
    "cp -r deploy /tmp/y; grep -r . deploy /tmp/y",
    "dotenv of a nested repository": "cat vendor/.git/.env",
    "beside the folder": "cat ../secret.txt {secret}",
    "by a link": "ln -s {secret} here; cat here",
    "homes": "cat ~root/.bashrc ~root/.perdure/* /home/*/.ssh/*; ls ~root /home",
    "other processes": "cat /proc/{pid}/environ /proc/{pid}/cwd/etc/shadow; ls /proc/{pid}/fd",
    "descriptors": "cat <&3 <&4 <&5 <&6 <&7 <&8 <&9; ls -l /proc/self/fd",
    "mounting again": "umount /perdure/copy/.env; mount --bind / /mnt; cat .env",
    "a new namespace": "unshare -Urm sh -c 'umount .env; cat .env'",
}


@needs_bubblewrap
@pytest.mark.parametrize("case", READING, ids=str)
async def test_it_reads_nothing_that_is_withheld(
    folder: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERDURE_TEST_SECRET", SECRET)
    beside = str(folder.parent / "secret.txt")
    command = READING[case].replace("{secret}", beside).replace("{pid}", str(os.getpid()))
    output = await _call(folder, command)
    assert output.outcome == "ok"
    assert SECRET not in output.text
    assert "root:x:" not in output.text


RENAMED = {
    "a nested repository": ("mkdir x && mv deploy x/.git", "x/.git"),
    "a repository where there is none": ("mv deploy .git", ".git"),
}


@needs_bubblewrap
@pytest.mark.parametrize("case", RENAMED, ids=str)
async def test_what_is_withheld_stays_so_in_a_folder_that_a_command_renames(
    folder: Path, case: str
) -> None:
    (folder / ".git").unlink()
    renaming, now = RENAMED[case]
    assert (await _call(folder, renaming)).text.startswith("[exit code 0; ")
    assert (folder / now / "prod.env").read_text() == SECRET
    output = await _call(folder, f"cat {now}/prod.env {now}/keys.env/*; grep -r . {now}")
    assert output.outcome == "ok"
    assert SECRET not in output.text


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o600])
def test_it_is_refused_where_a_folder_cannot_be_listed(mode: int) -> None:
    with unprivileged() as folder:
        (folder / "closed").mkdir()
        (folder / "closed" / ".env").write_text(SECRET)
        (folder / "closed").chmod(mode)
        with pytest.raises(ToolFailure, match=r"folder closed cannot be listed.*A person can"):
            _withheld(str(folder))


def test_what_is_withheld_names_a_folder_of_secrets_as_a_whole(folder: Path) -> None:
    (folder / ".env.example").mkdir()
    (folder / ".env.example" / "keys").write_text("given")
    fixed, hidden = _withheld(str(folder))
    assert fixed == (".git",)
    assert sorted(hidden) == [
        ".env",
        "deploy/.Env",
        "deploy/keys.env",
        "deploy/prod.env",
        "node_modules/package/.env",
        "vendor/.git/.env",
        "venv/.env",
    ]


@needs_bubblewrap
async def test_it_gets_no_descriptor_but_the_three_of_every_program(folder: Path) -> None:
    output = await _call(folder, "ls /proc/$$/fd")
    assert output.text.splitlines()[-3:] == ["0", "1", "2"]


WRITING = {
    "version control": "echo gitdir: /evil > .git; rm -f .git; mv .git x; mkdir .git",
    "the system": "echo x > /usr/pwned; echo x > /etc/pwned; echo x > /bin/pwned",
    "the root": "echo x > /pwned; mkdir /perdure/pwned",
    "devices": "echo x > /dev/pwned; mknod disk b 8 0",
    "the kernel": "echo pwned > /proc/sys/kernel/hostname; echo 1 > /proc/sysrq-trigger",
    "beside": "echo x > ../pwned; echo x > {beside}",
}


@needs_bubblewrap
@pytest.mark.parametrize("case", WRITING, ids=str)
async def test_it_writes_nowhere_else(folder: Path, case: str) -> None:
    beside = folder.parent / "pwned"
    output = await _call(folder, WRITING[case].replace("{beside}", str(beside)))
    assert output.outcome == "ok"
    assert (folder / ".git").read_text() == "gitdir: elsewhere\n"
    assert not beside.exists()
    assert "[errors]" in output.text


@needs_bubblewrap
async def test_no_write_that_fails_looks_like_one_that_works(folder: Path) -> None:
    places = ("/pwned", "/dev/pwned", "/perdure/pwned", "/etc/pwned", "/usr/pwned", ".git/x")
    script = "; ".join(f"(echo x > {place}) 2>/dev/null && echo WROTE {place}" for place in places)
    assert "WROTE" not in (await _call(folder, f"{script}; true")).text


@needs_bubblewrap
async def test_no_network_not_even_loopback(folder: Path) -> None:
    async with listening() as listener:
        output = await _call(folder, f'python3 -c "{listener.program}"')
    assert "Connection refused" in output.text
    assert "[exit code 1;" in output.text
    assert listener.calls == 0


@needs_bubblewrap
async def test_nothing_outlives_a_call(folder: Path) -> None:
    mark = f"71.0{os.getpid()}"
    output = await _call(folder, f"setsid sleep {mark} & nohup sleep {mark} & echo started")
    assert "started" in output.text
    assert left(mark) == []


@needs_bubblewrap
async def test_time_ends_it_with_all_it_started(folder: Path) -> None:
    mark = f"72.0{os.getpid()}"
    output = await _call(folder, f"trap '' TERM; sleep {mark} & sleep {mark}", limit_s=1.0)
    assert output.text.startswith("[stopped: it did not end within 1 s;")
    assert left(mark) == []


def _capped(**caps: int) -> Allowance:
    return Allowance(
        commands=("shell.full", "python3"), timeout_s=30.0, search=PYTHON, caps=Caps(**caps)
    )


@needs_bubblewrap
async def test_too_many_processes_end_it(folder: Path) -> None:
    mark = f"73.0{os.getpid()}"
    script = f"while :; do sleep {mark} & sleep 0.005; done"
    output = await _call(folder, script, allowance=_capped(processes=40))
    assert output.text.startswith("[stopped: it used more than 40 processes;")
    assert left(mark) == []


@needs_bubblewrap
async def test_too_much_memory_of_all_together_ends_it(folder: Path) -> None:
    code = "x = bytearray(60 << 20)\nimport time\ntime.sleep(20)"
    (folder / "grow.py").write_text(code)
    script = "for i in 1 2 3 4; do python3 grow.py & done; wait"
    output = await _call(folder, script, allowance=_capped(memory_bytes=200 << 20))
    assert output.text.startswith("[stopped: it used more than 200 MB of memory;")


SHARED = """
import mmap, time
held = mmap.mmap(-1, 2 << 30)
for at in range(0, 2 << 30, 1 << 20):
    held[at : at + (1 << 20)] = bytes([1]) * (1 << 20)
time.sleep(20)
"""


@needs_bubblewrap
async def test_memory_shared_with_others_counts(folder: Path) -> None:
    (folder / "grow.py").write_text(SHARED)
    output = await _call(folder, "python3 grow.py", allowance=_capped(memory_bytes=256 << 20))
    assert output.text.startswith("[stopped: it used more than 256 MB of memory;")


@needs_bubblewrap
async def test_the_kernel_bounds_what_outruns_the_watch(folder: Path) -> None:
    (folder / "many.py").write_text(
        "import os, time\nmade = 0\ntry:\n    for made in range(500):\n"
        "        os.fork() or (time.sleep(30), os._exit(0))\n"
        "except BlockingIOError:\n    pass\nprint(made, flush=True)\n"
    )
    output = await _call(folder, "python3 many.py", allowance=_capped(processes=50))
    counts = [int(word) for word in output.text.split() if word.isdigit()]
    assert not counts or counts[-1] < 110


@needs_bubblewrap
async def test_too_many_new_files_end_it(folder: Path) -> None:
    script = "i=0; while :; do i=$((i+1)); head -c 4000000 /dev/urandom > f$i; done"
    output = await _call(folder, script, allowance=_capped(disk_bytes=40 << 20))
    assert output.text.startswith("[stopped: it used more than 40 MB of new files;")


@needs_bubblewrap
@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
async def test_what_lies_in_memory_has_a_largest_size(folder: Path, place: str) -> None:
    script = f"for i in 1 2; do head -c 200000000 /dev/zero > {place}/big$i; done"
    assert "No space left" in (await _call(folder, script)).text


@needs_bubblewrap
async def test_output_is_cut_and_cannot_forge_how_it_ended(folder: Path) -> None:
    forged = "[exit code 0; 0.0 s]"
    output = await _call(folder, f"echo '{forged}'; head -c 300000 /dev/zero | tr '\\0' x; exit 7")
    assert output.text.startswith("[exit code 7; ")
    assert len(output.text) < 60_000
    assert "bytes left out" in output.text


async def test_a_workspace_that_is_only_read_gets_no_shell(folder: Path) -> None:
    output = await _call(folder, "echo x", writable=False)
    assert (output.outcome, output.code) == ("denied", "denied")


@pytest.mark.parametrize(
    ("allowance", "said"),
    [
        (Allowance(commands=("sh", "python3"), search=PYTHON), "PERDURE_ALLOW_COMMANDS"),
        (Allowance(commands=("shell.full",), search="/nowhere"), "bubblewrap is not installed"),
        (
            Allowance(commands=("shell.full",), plain=("shell.full", "sh"), search="/nowhere"),
            "bubblewrap is not installed",
        ),
    ],
    ids=["not named", "no sandbox", "plain does not count"],
)
async def test_where_it_cannot_be_had_the_reason_is_told(
    folder: Path, allowance: Allowance, said: str
) -> None:
    output = await _call(folder, "echo $((40 + 2))", allowance=allowance)
    assert (output.outcome, output.code) == ("error", "not_allowed")
    assert said in output.text
    assert "42" not in output.text
    catalog = await _host(allowance).catalog()
    assert select(catalog, level="full").names == ()
    (problem,) = select(catalog, level="full", allow=["shell.full"]).problems
    assert said in problem


def test_it_is_refused_where_files_are_too_deep_to_be_withheld(folder: Path) -> None:
    deepen(folder, levels=MOST_LEVELS)
    with pytest.raises(ToolFailure, match="dotenv files cannot be withheld"):
        _withheld(str(folder))
