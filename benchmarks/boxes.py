"""The ways to call one small made tool: in the sandbox of the product, and bare beside it."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import JsonValue
from pydantic_monty import AsyncMonty

from perdure.adapters.sandbox.bubblewrap import find_bubblewrap
from perdure.adapters.sandbox.commands import SYSTEM_PATH, Allowance, LocalCommands
from perdure.adapters.sandbox.generated_tools import MadeToolSandbox
from perdure.adapters.stores.open_stores import Stores
from perdure.adapters.tools.generated_tools import MadeTools
from perdure.domain.evaluation.program_checks import Command
from perdure.domain.generated_tools.draft import PIPELINE, ToolDraft
from perdure.domain.generated_tools.dry_run import Returned
from perdure.domain.generated_tools.record import GeneratedTool, ToolAuthor
from perdure.domain.tools.definitions import ToolGrant, ToolInvocation

BoxName = Literal[
    "made tool, whole call",
    "made tool, sandbox",
    "bare interpreter",
    "kept interpreter",
    "python -I -S",
    "program, sandbox",
    "bare bubblewrap",
    "in process",
]
Call = Callable[[], Awaitable[str]]

NAME = "text.count"
CODE = '''def handler(*, text: str) -> dict:
    """Count the words of a text."""
    return {"words": len(text.split())}
'''
SCHEMA: dict[str, JsonValue] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}
ARGUMENTS: dict[str, JsonValue] = {"text": "a bottle of steel, " * 50}
SECONDS = 5.0
PROGRAM = f"{CODE}\nimport json, sys\nprint(json.dumps(handler(**json.load(sys.stdin))))\n"
BARE: BoxName = "bare interpreter"
BARE_PYTHON = ("-I", "-S", "-c", PROGRAM)
BARE_BUBBLEWRAP = (
    "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One way to call the tool.

    Args:
        name: of the side.
        call: one call; returns the result as JSON, in which all sides must agree.
        against: the bare side of the same isolation, for the product's own.
    """

    name: BoxName
    call: Call
    against: BoxName | None = None


@asynccontextmanager
async def boxes(stores: Stores, folder: Path) -> AsyncGenerator[tuple[Box, ...]]:
    """Every way that this machine has, the product's first; programs work in the folder."""
    sandbox = MadeToolSandbox()
    made = MadeTools(store=stores.made_tools, blobs=stores.blobs, sandbox=sandbox)
    grant = await _granted(stores)
    try:
        async with (
            AsyncMonty(max_processes=2, max_checkouts_per_worker=1) as thrown,
            AsyncMonty(max_processes=2) as kept,
        ):
            yield (
                Box(name="made tool, whole call", call=_whole(made, grant), against=BARE),
                Box(name="made tool, sandbox", call=_sandboxed(sandbox), against=BARE),
                Box(name=BARE, call=_interpreted(thrown)),
                Box(name="kept interpreter", call=_interpreted(kept)),
                Box(name="python -I -S", call=_program((sys.executable, *BARE_PYTHON))),
                *_programs(folder),
                Box(name="in process", call=_in_process()),
            )
    finally:
        await sandbox.aclose()


async def _granted(stores: Stores) -> ToolGrant:
    """Keep the tool as the pipeline does; a run is granted it by its hash."""
    hash, now = ToolDraft(name=NAME, code=CODE, parameters=SCHEMA).hash, datetime.now(UTC)
    tool = GeneratedTool(
        hash=hash,
        name=NAME,
        description="Count the words of a text.",
        parameters=SCHEMA,
        code=await stores.blobs.put(CODE.encode()),
        handler="handler",
        pipeline=PIPELINE,
        made_at=now,
    )
    await stores.made_tools.keep(tool, ToolAuthor(run="b8", root="b8", worker="w", at=now))
    return ToolGrant(root="/", allowed=(NAME,), generated={NAME: hash})


def _whole(made: MadeTools, grant: ToolGrant) -> Call:
    """As a worker's step calls it: look it up, verify its hash, check its arguments, run it."""
    envelope = ToolInvocation(
        run="b8",
        call_id="c",
        idempotency_key="k",
        name=NAME,
        arguments=ARGUMENTS,
        timeout_s=SECONDS,
    )

    async def call() -> str:
        output = await made.call(envelope, grant)
        return _canonical(json.loads(output.text)) if output.outcome == "ok" else output.text

    return call


def _sandboxed(sandbox: MadeToolSandbox) -> Call:
    async def call() -> str:
        trial = await sandbox.run(CODE, "handler", ARGUMENTS, seconds=SECONDS)
        return _canonical(trial.value) if isinstance(trial, Returned) else repr(trial)

    return call


def _interpreted(pool: AsyncMonty) -> Call:
    """The interpreter as its library gives it, with its defaults."""

    async def call() -> str:
        async with pool.checkout() as session:
            value = await session.feed_run(
                f"{CODE}\nhandler(**given)", inputs={"given": dict(ARGUMENTS)}
            )
        return _canonical(value)

    return call


def _program(argv: tuple[str, ...]) -> Call:
    given = json.dumps(ARGUMENTS).encode()

    async def call() -> str:
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={}
        )
        said, _ = await process.communicate(given)
        return _canonical(json.loads(said)) if process.returncode == 0 else said.decode()

    return call


def _programs(folder: Path) -> tuple[Box, ...]:
    """A whole Python in bubblewrap: what rubrics and the shell have; no made tool runs there."""
    bwrap = find_bubblewrap(SYSTEM_PATH)
    if bwrap is None:
        return ()
    runner = LocalCommands(Allowance(commands=("python3",)))
    command = Command(
        argv=("python3", *BARE_PYTHON), folder=str(folder), output=json.dumps(ARGUMENTS)
    )

    async def call() -> str:
        ran = await runner.run(command)
        return _canonical(json.loads(ran.out)) if ran.code == 0 else ran.err

    bare = (bwrap, *BARE_BUBBLEWRAP, sys.executable, *BARE_PYTHON)
    return (
        Box(name="program, sandbox", call=call, against="bare bubblewrap"),
        Box(name="bare bubblewrap", call=_program(bare)),
    )


def _in_process() -> Call:
    """No sandbox at all: what the work itself costs."""
    known: dict[str, Callable[..., Mapping[str, JsonValue]]] = {}
    exec(CODE, known)

    async def call() -> str:
        return _canonical(known["handler"](**ARGUMENTS))

    return call


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)
