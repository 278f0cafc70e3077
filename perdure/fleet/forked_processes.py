"""What tools and checks fork off their worker takes no signal for it, and ends with it.

A `multiprocessing.Pool` ends its processes by SIGTERM, and forks them by default on Linux before
Python 3.14.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence


def handle_no_signals_in_forks(numbers: Sequence[signal.Signals]) -> None:
    """Give a process that is forked off the default handlers of these signals.

    It inherits the pipe that wakes the event loop for a signal. So a signal that reached it would
    be acted on here: a pool that ends would drain the worker.
    """
    masks = threading.local()

    def hold() -> None:
        # A signal may come before the new process has its own handlers.
        masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def let() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.before)

    def forget() -> None:
        signal.set_wakeup_fd(-1)
        for number in numbers:
            interrupts = number is signal.SIGINT
            signal.signal(number, signal.default_int_handler if interrupts else signal.SIG_DFL)
        let()

    os.register_at_fork(before=hold, after_in_parent=let, after_in_child=forget)


def end_forked_processes() -> None:
    """Kill the processes of `multiprocessing`, which end by themselves only at a normal exit."""
    module = sys.modules.get("multiprocessing")
    if module is not None:
        for child in module.active_children():
            child.kill()
