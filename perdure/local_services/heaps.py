"""How the C library keeps memory for the threads of a process."""

import contextlib
import ctypes

M_ARENA_MAX = -8  # of mallopt(3)


def share_heaps() -> None:
    """Let threads share two heaps: with one for each, glibc keeps what they freed many times."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 2)
