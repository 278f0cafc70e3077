"""The filter (seccomp) of system calls for sandboxed programs.

It backs up the namespaces by refusing calls that no build or test needs and that past exploits
used: tracing, keys, BPF, mounts, namespaces, modules, clocks, io_uring, and sockets of all families
but those that programs use and the network namespace isolates. Memory that belongs to no process
and no file system of limited size is refused too, because no limit would count it. Calls newer than
this table answer ENOSYS, as on an older kernel, which programs can handle. bubblewrap installs the
filter right before it starts the program.

The filter is made here, without libseccomp: that library belongs to the system and its binding
would have to match it, while all that is needed is a list of numbers. A test compares them with the
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
# The flags of `clone` for a new namespace: mount, cgroup, UTS, IPC, user, PID, network.
_NEW_NAMESPACES = 0x7E02_0000
# The newest call that was reviewed for this table (removexattrat).
_NEWEST = 466
# Of System V shared memory, which no limit of a process counts. The kernel allows 4,096 segments.
SEGMENT_BYTES = 64 << 10
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_X32 = 0x40000000  # the x32 ABI has the same calls under other numbers
# Unix, IPv4, IPv6 and netlink. Other families reach the host of a virtual machine (vsock), the
# kernel's ciphers (AF_ALG), radios and buses.
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
# Answers ENOSYS, so that programs fall back to `clone`: the flags of `clone3` are behind a pointer,
# which a filter cannot follow.
_CLONE3 = 435
_MEMFD_SECRET = 447
# In the order of the numbers in `_MACHINES`.
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
    """A processor: its audit architecture, and the numbers that calls have on it."""

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
    """The compiled filter for a processor (None: this one); empty if it is not in the table."""
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
    # Go on with the next step if any bit of the mask is set; otherwise skip it.
    spaces = [
        _step(_LOAD, value=_FIRST_ARGUMENT_AT),
        _step(_JUMP_ANY_BIT, value=_NEW_NAMESPACES, otherwise=1),
        refused,
    ]
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
    """Steps for one call, which is allowed if none of them returns."""
    allowed = _step(_RETURN, value=_ALLOW)
    return [_step(_JUMP_EQUAL, value=number, otherwise=len(steps) + 1), *steps, allowed]


def _step(code: int, *, value: int = 0, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
