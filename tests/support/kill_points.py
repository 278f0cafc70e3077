"""A worker plugin that kills its process at a named point, as often as the test says.

`KILL_POINT` names the point and how many times it is passed first, such as `after_commit:2`;
`KILL_MARKS` is a folder that counts the deaths, of which `KILL_TIMES` are due.
"""

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from temporalio.worker import _workflow

from perdure.adapters.stores.journal import SqlJournal
from perdure.gateway.claim_run_id import Claims
from perdure.gateway.open_task import TaskOpening

_passed = 0


def _pass_or_die() -> None:
    global _passed
    _passed += 1
    if _passed <= int(os.environ["KILL_POINT"].partition(":")[2] or 0):
        return
    marks = Path(os.environ["KILL_MARKS"])
    died = len(list(marks.iterdir()))
    if died < int(os.environ.get("KILL_TIMES", "1")):
        (marks / str(died)).touch()
        os.kill(os.getpid(), signal.SIGKILL)


def _before(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        _pass_or_die()
        return await work(*args, **kwargs)

    return run


def _after(work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def run(*args: Any, **kwargs: Any) -> Any:
        value = await work(*args, **kwargs)
        _pass_or_die()
        return value

    return run


match os.environ.get("KILL_POINT", "").partition(":")[0]:
    case "before_begin":
        SqlJournal.begin = _before(SqlJournal.begin)  # type: ignore[method-assign]
    case "after_begin":
        SqlJournal.begin = _after(SqlJournal.begin)  # type: ignore[method-assign]
    case "after_answer":
        SqlJournal.answer = _before(SqlJournal.answer)  # type: ignore[method-assign]
    case "after_commit":
        SqlJournal.answer = _after(SqlJournal.answer)  # type: ignore[method-assign]
    case "before_open":
        TaskOpening.open = _before(TaskOpening.open)  # type: ignore[method-assign]
    case "before_claim":
        Claims.claim = _before(Claims.claim)  # type: ignore[method-assign]
    case "after_claim":
        Claims.claim = _after(Claims.claim)  # type: ignore[method-assign]
    case "after_open":
        TaskOpening.open = _after(TaskOpening.open)  # type: ignore[method-assign]
    case "in_workflow_task":
        worker = _workflow._WorkflowWorker
        worker._handle_activation = _before(worker._handle_activation)  # type: ignore[method-assign]
    case _:
        pass
