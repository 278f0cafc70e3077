"""The filter of system calls for sandboxed programs: what no build or test needs, and holes have.

It backs up the namespaces: tracing, keys, BPF, mounts, namespaces, modules, io_uring, and sockets
of families that no network namespace encloses. Memory that belongs to no process and to no file
system of limited size is refused as well, since nobody would count it. bubblewrap installs the
filter right before the program.
"""

import errno
import os
import struct
from dataclasses import dataclass

_LOAD, _JUMP_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x15, 0x35, 0x06
_JUMP_ABOVE, _JUMP_ANY_BIT = 0x25, 0x45
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_SECOND_ARGUMENT_AT, _SECOND_ARGUMENT_HIGH_AT = 24, 28
_NEW_USERS = 0x1000_0000
# 4,096 segments of this size are the most that there can be.
SEGMENT_BYTES = 64 << 10
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000  # the same calls under other numbers
# Virtual machines reach their host by the first, the kernel's ciphers are reached by the second.
_FAMILIES = (40, 38)
_EVERYWHERE = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
}
# Refused as unknown, so that programs take the older way: its flags cannot be looked at here.
_CLONE3 = 435
_MEMFD_SECRET = 447
_NAMES = (
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "add_key", "request_key", "keyctl",
    "bpf", "perf_event_open", "userfaultfd", "mount", "umount2", "pivot_root", "setns", "unshare",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
    "open_by_handle_at", "name_to_handle_at", "swapon", "swapoff", "reboot", "acct", "quotactl",
    "syslog",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Machine:
    """A processor's mark in a filter, its numbers of some calls, and of those that are refused."""

    mark: int
    socket: int
    clone: int
    shmget: int
    memfd_create: int
    refused: tuple[int, ...]


_MACHINES = {
    "x86_64": _Machine(
        0xC000003E,
        41,
        56,
        29,
        319,
        (
            101, 310, 311, 312, 248, 249, 250, 321, 298, 323, 165, 166, 155, 308, 272, 246, 320,
            175, 313, 176, 304, 303, 167, 168, 169, 163, 179, 103,
        ),
    ),
    "aarch64": _Machine(
        0xC00000B7,
        198,
        220,
        194,
        279,
        (
            117, 270, 271, 272, 217, 218, 219, 280, 241, 282, 40, 39, 41, 268, 97, 104, 294, 105,
            273, 106, 265, 264, 224, 225, 142, 89, 60, 116,
        ),
    ),
}  # fmt: skip


def filter_for(machine: str | None = None) -> bytes:
    """The compiled filter for a processor (None: this one); empty where none is known."""
    known = _MACHINES.get(machine or os.uname().machine)
    if known is None:
        return b""
    steps = [
        _step(_LOAD, value=_MACHINE_AT),
        _step(_JUMP_EQUAL, value=known.mark, then=1),
        _step(_RETURN, value=_KILL),
        _step(_LOAD, value=_NUMBER_AT),
        _step(_JUMP_FROM, value=_X32, otherwise=1),
        _step(_RETURN, value=_ERROR | errno.EPERM),
    ]
    for number in (*known.refused, *_EVERYWHERE.values()):
        steps.append(_step(_JUMP_EQUAL, value=number, otherwise=1))
        steps.append(_step(_RETURN, value=_ERROR | errno.EPERM))
    for number in (_CLONE3, known.memfd_create, _MEMFD_SECRET):
        steps += _answered(number, [_step(_RETURN, value=_ERROR | errno.ENOSYS)])
    refused = _step(_RETURN, value=_ERROR | errno.EPERM)
    users = [_step(_LOAD, value=_FIRST_ARGUMENT_AT), _bit(_NEW_USERS), refused]
    steps += _answered(known.clone, users)
    small = _step(_JUMP_ABOVE, value=SEGMENT_BYTES, otherwise=1)
    low = [_step(_LOAD, value=_SECOND_ARGUMENT_AT), small, refused]
    high = [_step(_LOAD, value=_SECOND_ARGUMENT_HIGH_AT), _step(_JUMP_ABOVE, otherwise=1), refused]
    steps += _answered(known.shmget, [*low, *high])
    families = [_step(_LOAD, value=_FIRST_ARGUMENT_AT)]
    for family in _FAMILIES:
        families.append(_step(_JUMP_EQUAL, value=family, otherwise=1))
        families.append(_step(_RETURN, value=_ERROR | errno.EAFNOSUPPORT))
    steps += _answered(known.socket, families)
    return b"".join((*steps, _step(_RETURN, value=_ALLOW)))


def _answered(number: int, steps: list[bytes]) -> list[bytes]:
    """Steps for one call; those that give no answer allow it."""
    allowed = _step(_RETURN, value=_ALLOW)
    return [_step(_JUMP_EQUAL, value=number, otherwise=len(steps) + 1), *steps, allowed]


def _bit(mask: int) -> bytes:
    """Goes on with the next step where the bit is set, else behind it."""
    return _step(_JUMP_ANY_BIT, value=mask, otherwise=1)


def _step(code: int, *, value: int = 0, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
