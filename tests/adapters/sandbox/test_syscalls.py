"""The filter of system calls: each refused call fails inside the sandbox, and works outside it."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest
from enclosure import needs_bubblewrap

from perdure.adapters.sandbox.commands import SYSTEM_PATH, Allowance, LocalCommands
from perdure.adapters.sandbox.syscalls import _MACHINES, filter_for
from perdure.domain.evaluation.program_checks import Command, Ran

PYTHON = f"{os.path.dirname(os.path.realpath(sys.executable))}:{SYSTEM_PATH}"
# Calls with arguments that every kernel refuses in another way than "not permitted".
ASK = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for name, number in {calls}.items():
    ctypes.set_errno(0)
    libc.syscall(number, *[ctypes.c_long(-1)] * 6)
    print(name, errno.errorcode.get(ctypes.get_errno(), "none"))
"""
HARMLESS = ("ptrace", "keyctl", "add_key", "bpf", "userfaultfd", "io_uring_setup", "kcmp")
FAMILY = "import socket; socket.socket({family}, socket.SOCK_STREAM).close(); print('made')"


def refused_calls() -> dict[str, int]:
    """The calls that are refused on this processor; none where no filter is known for it."""
    known = _MACHINES.get(os.uname().machine)
    return dict(known.refused) if known else {}


async def _python(code: str, folder: Path) -> Ran:
    allowed = Allowance(commands=("python3",), timeout_s=20.0, search=PYTHON)
    return await LocalCommands(allowed).run(
        Command(argv=("python3", "-c", code), folder=str(folder))
    )


@needs_bubblewrap
async def test_every_refused_call_is_refused(tmp_path: Path) -> None:
    calls = refused_calls()
    if not calls:
        pytest.skip("no filter is known for this processor")
    ran = await _python(ASK.replace("{calls}", repr(calls)), tmp_path)
    said = dict(line.split() for line in ran.out.splitlines())
    assert said == dict.fromkeys(calls, "EPERM"), ran.err


async def test_without_the_filter_they_say_something_else() -> None:
    """The other test can fail: outside, nonsense arguments are what is wrong."""
    calls = {name: number for name, number in refused_calls().items() if name in HARMLESS}
    code = f"{ASK.replace('{calls}', repr(calls))}"
    process = await _plain(code)
    said = dict(line.split() for line in process.splitlines())
    assert "EPERM" not in {said[name] for name in said if name in ("add_key", "kcmp")}
    assert set(said) == set(calls)


async def _plain(code: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode()


@needs_bubblewrap
@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("40", "Address family not supported"),
        ("38", "Address family not supported"),
        ("17", "Address family not supported"),
        ("31", "Address family not supported"),
    ],
    ids=["to the host of a virtual machine", "to the kernel's ciphers", "raw packets", "radio"],
)
async def test_sockets_that_no_namespace_encloses_are_refused(
    tmp_path: Path, family: str, said: str
) -> None:
    ran = await _python(FAMILY.replace("{family}", family), tmp_path)
    assert said in ran.err


@needs_bubblewrap
async def test_programs_work_as_usual(tmp_path: Path) -> None:
    code = (
        "import socket, subprocess, threading\n"
        "a, b = socket.socketpair()\n"
        "s = socket.create_server(('127.0.0.1', 0))\n"
        "t = threading.Thread(target=lambda: s.accept()[0].send(b'hi'))\n"
        "t.start()\n"
        "print(socket.create_connection(s.getsockname()).recv(2).decode())\n"
        "t.join()\n"
        "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout)"
    )
    ran = await _python(code, tmp_path)
    assert (ran.code, ran.out.split()) == (0, ["hi", "child"]), ran.err


def test_an_unknown_processor_has_no_filter() -> None:
    assert filter_for("m68k") == b""
    assert filter_for("x86_64") != filter_for("aarch64")


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
# Some numbers of the general table stand there under the name of their older width.
_DEFINED = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)")


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_those_of_the_kernel(machine: str) -> None:
    if not HEADERS[machine].is_file():
        pytest.skip("the kernel's headers are not installed")
    defined = dict(_DEFINED.findall(HEADERS[machine].read_text()))
    known = _MACHINES[machine]
    ours = {**known.refused, "socket": known.socket, "socketpair": known.socketpair}
    ours |= {"clone": known.clone, "shmget": known.shmget, "memfd_create": known.memfd_create}
    wrong = {
        name: number for name, number in ours.items() if int(defined.get(name, number)) != number
    }
    assert wrong == {}
    assert len(ours.keys() & defined.keys()) > len(ours) - 6


@needs_bubblewrap
async def test_calls_of_newer_kernels_are_unknown(tmp_path: Path) -> None:
    calls = {"file_getattr": 468, "listns": 470, "not_yet": 999}
    ran = await _python(ASK.replace("{calls}", repr(calls)), tmp_path)
    assert dict(line.split() for line in ran.out.splitlines()) == dict.fromkeys(calls, "ENOSYS")


@needs_bubblewrap
@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x10000000, 0x20000000, 0x40000000], ids=hex)
async def test_no_process_begins_in_a_new_namespace(tmp_path: Path, flag: int) -> None:
    code = (
        "import ctypes, errno, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]\n"
        f"made = libc.syscall(clone, {flag | 17}, 0, 0, 0, 0)\n"
        "if made == 0: os._exit(0)\n"
        "print(errno.errorcode[ctypes.get_errno()] if made < 0 else 'made')"
    )
    assert (await _python(code, tmp_path)).out.split() == ["EPERM"]
