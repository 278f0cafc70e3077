"""The filter of system calls for sandboxed programs: what no build or test needs, and holes have.

It backs up the namespaces: tracing, keys, BPF, mounts, namespaces, modules, clocks, io_uring, and
sockets of all families but those that programs use and the network namespace encloses. Memory that
belongs to no process and to no file system of limited size is refused as well, since nobody would
count it. Calls that are newer than this table are unknown to programs, as on an older kernel: what
nobody here has looked at is not allowed. bubblewrap installs the filter right before the program.

The filter is made here, without libseccomp: that library is one of the system, its binding would
have to fit it, and all that is needed is a list of numbers, which a test compares with the
kernel's own headers.
"""

import errno
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass

_LOAD, _JUMP_EQUAL, _JUMP_FROM, _RETURN = 0x20, 0x15, 0x35, 0x06
_JUMP_ABOVE, _JUMP_ANY_BIT = 0x25, 0x45
_NUMBER_AT, _MACHINE_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
_SECOND_ARGUMENT_AT, _SECOND_ARGUMENT_HIGH_AT = 24, 28
# Any new namespace: of mounts, control groups, names, queues, users, processes, networks.
_NEW_NAMESPACES = 0x7E02_0000
# The newest call that was looked at (removexattrat).
_NEWEST = 466
# 4,096 segments of this size are the most that there can be.
SEGMENT_BYTES = 64 << 10
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000  # the same calls under other numbers
# Unix, IPv4, IPv6, and the kernel's own tables of the network. Others reach the host of a virtual
# machine, the kernel's ciphers, radios, buses.
_FAMILIES = (1, 2, 10, 16)
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
    "quotactl_fd": 443,
}
# Refused as unknown, so that programs take the older way: its flags cannot be looked at here.
_CLONE3 = 435
_MEMFD_SECRET = 447
_NAMES = (
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "add_key", "request_key", "keyctl",
    "bpf", "perf_event_open", "userfaultfd", "mount", "umount2", "pivot_root", "setns", "unshare",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
    "open_by_handle_at", "name_to_handle_at", "swapon", "swapoff", "reboot", "acct", "quotactl",
    "syslog", "chroot", "fanotify_init", "lookup_dcookie", "settimeofday", "clock_settime",
    "adjtimex", "clock_adjtime", "sethostname", "setdomainname", "move_pages", "migrate_pages",
    "vhangup", "nfsservctl",
)  # fmt: skip
_ONLY_X86 = {
    "iopl": 172, "ioperm": 173, "modify_ldt": 154, "create_module": 174, "get_kernel_syms": 177,
    "query_module": 178, "uselib": 134, "_sysctl": 156, "sysfs": 139, "ustat": 136,
}  # fmt: skip


def _named(*numbers: int) -> dict[str, int]:
    """Numbers of the calls that are refused, by name."""
    return dict(zip(_NAMES, numbers, strict=True)) | _EVERYWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """A processor's mark in a filter, its numbers of some calls, and of those that are refused."""

    mark: int
    socket: int
    socketpair: int
    clone: int
    shmget: int
    memfd_create: int
    refused: Mapping[str, int]


_MACHINES = {
    "x86_64": _Machine(
        mark=0xC000003E,
        socket=41,
        socketpair=53,
        clone=56,
        shmget=29,
        memfd_create=319,
        refused=_named(
            101, 310, 311, 312, 248, 249, 250, 321, 298, 323, 165, 166, 155, 308, 272, 246, 320,
            175, 313, 176, 304, 303, 167, 168, 169, 163, 179, 103, 161, 300, 212, 164, 227, 159,
            305, 170, 171, 279, 256, 153, 180,
        )
        | _ONLY_X86,
    ),
    "aarch64": _Machine(
        mark=0xC00000B7,
        socket=198,
        socketpair=199,
        clone=220,
        shmget=194,
        memfd_create=279,
        refused=_named(
            117, 270, 271, 272, 217, 218, 219, 280, 241, 282, 40, 39, 41, 268, 97, 104, 294, 105,
            273, 106, 265, 264, 224, 225, 142, 89, 60, 116, 51, 262, 18, 170, 112, 171, 266, 161,
            162, 239, 238, 58, 42,
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
        _step(_JUMP_ABOVE, value=_NEWEST, otherwise=1),
        _step(_RETURN, value=_ERROR | errno.ENOSYS),
    ]
    for number in known.refused.values():
        steps.append(_step(_JUMP_EQUAL, value=number, otherwise=1))
        steps.append(_step(_RETURN, value=_ERROR | errno.EPERM))
    for number in (_CLONE3, known.memfd_create, _MEMFD_SECRET):
        steps += _answered(number, [_step(_RETURN, value=_ERROR | errno.ENOSYS)])
    refused = _step(_RETURN, value=_ERROR | errno.EPERM)
    spaces = [_step(_LOAD, value=_FIRST_ARGUMENT_AT), _bit(_NEW_NAMESPACES), refused]
    steps += _answered(known.clone, spaces)
    small = _step(_JUMP_ABOVE, value=SEGMENT_BYTES, otherwise=1)
    low = [_step(_LOAD, value=_SECOND_ARGUMENT_AT), small, refused]
    high = [_step(_LOAD, value=_SECOND_ARGUMENT_HIGH_AT), _step(_JUMP_ABOVE, otherwise=1), refused]
    steps += _answered(known.shmget, [*low, *high])
    last = len(_FAMILIES)
    families = [
        _step(_LOAD, value=_FIRST_ARGUMENT_AT),
        *(_step(_JUMP_EQUAL, value=one, then=last - at) for at, one in enumerate(_FAMILIES)),
        _step(_RETURN, value=_ERROR | errno.EAFNOSUPPORT),
    ]
    for number in (known.socket, known.socketpair):
        steps += _answered(number, families)
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
