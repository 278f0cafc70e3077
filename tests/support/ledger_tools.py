"""Plugin tools that keep a ledger of their effects: one line before anything else happens."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

from perdure.extending.tool_decorator import ToolContext, tool


def _book(context: ToolContext, name: str, **facts: object) -> None:
    line = {"tool": name, "key": context.idempotency_key, "run": context.run, **facts}
    with Path(os.environ["TOOL_LEDGER"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


async def _stall(seconds: float) -> None:
    flag = Path(os.environ["TOOL_LEDGER"] + ".go")
    for _ in range(int(seconds / 0.05)):
        if flag.exists():
            return
        await asyncio.sleep(0.05)


@tool(access="read", name="effect.once", timeout_s=60)
async def once(context: ToolContext, word: str, seconds: float = 0.0) -> str:
    """Do something that must not be done twice."""
    _book(context, "once", word=word)
    await _stall(seconds)
    return f"did {word}"


@tool(access="read", name="effect.again", idempotent=True, timeout_s=60)
async def again(context: ToolContext, word: str, seconds: float = 0.0) -> str:
    """Do something that may be done twice."""
    _book(context, "again", word=word)
    await _stall(seconds)
    return f"did {word}"


@tool(access="read", name="effect.approved", needs_approval=True)
async def approved(context: ToolContext, word: str) -> str:
    """Do something that a person must allow."""
    _book(context, "approved", word=word)
    return f"did {word}"


@tool(access="read", name="effect.pill", idempotent=True)
async def pill(context: ToolContext) -> str:
    """Break the worker, whichever tries it."""
    _book(context, "again")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool(access="read", name="effect.process", timeout_s=60)
async def process(context: ToolContext) -> str:
    """Hold a process group until it is stopped."""
    child = await asyncio.create_subprocess_exec(
        "sleep", "300", start_new_session=True, stdout=subprocess.DEVNULL
    )
    _book(context, "process", pid=child.pid)
    try:
        await child.wait()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return "ended"
