"""The sandbox of made tools: what a call gives, its limits, and that processes are thrown away."""

import asyncio
from collections.abc import AsyncGenerator

import psutil
import pytest
from pydantic import JsonValue
from waiting import eventually

from perdure.adapters.sandbox.generated_tools import MadeToolSandbox
from perdure.domain.generated_tools.dry_run import Crashed, Raised, Returned, Trial


@pytest.fixture
async def sandbox() -> AsyncGenerator[MadeToolSandbox]:
    made = MadeToolSandbox()
    yield made
    await made.aclose()


def body(*lines: str) -> str:
    inner = "\n".join(f"    {line}" for line in lines)
    return f"def handler(*, a: object = None) -> dict:\n{inner}\n"


GIVEN: dict[str, tuple[str, JsonValue, Trial]] = {
    "its arguments": (
        body("return {'a': a}"),
        {"x": [1, 2.5, None, "ü"]},
        Returned({"a": {"x": [1, 2.5, None, "ü"]}}),
    ),
    "a refusal": (
        body("raise ValueError('no')"),
        1,
        Raised("ValueError", "no", deliberate=True),
    ),
    "an own refusal": (
        body("raise KeyError('unit')"),
        1,
        Raised("KeyError", "'unit'", deliberate=True),
    ),
    "a crash": (body("return 1 / 0"), 1, Raised("ZeroDivisionError", "division by zero")),
    "no object": (body("return 3"), 1, Crashed("it returned int; return an object (a dict)")),
    "silence": (body("pass"), 1, Crashed("it returned nothing; return an object (a dict)")),
    "a flood": (body("return {'a': 'x' * 3000000}"), 1, Crashed("the result is too large; "
                                                             "return less, or a part at a time")),
    "time": (body("while True: pass"), 1, Crashed("it took more than 2 s")),
    "memory": (
        body("return {'a': 'x' * (1 << 40)}"),
        1,
        Crashed("it used more than 32 MiB of memory, or printed more than 64 KiB"),
    ),
    "depth": (body("return handler()"), 1, Crashed("it called itself more than 200 levels deep")),
    "time in the code itself": ("while True: pass\n", 1, Crashed("it took more than 2 s")),
    "chance is seeded": (
        "import random\n" + body("return {'a': random.random()}"),
        1,
        Returned({"a": 0.8444218515250481}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("code", "argument", "trial"), GIVEN.values(), ids=GIVEN)
async def test_what_a_call_gives(
    sandbox: MadeToolSandbox, code: str, argument: JsonValue, trial: Trial
) -> None:
    assert await sandbox.run(code, "handler", {"a": argument}, seconds=2) == trial


async def test_a_cancelled_call_ends_its_process(sandbox: MadeToolSandbox) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    endless = asyncio.create_task(sandbox.run(body("while True: pass"), "handler", {}, seconds=60))
    assert await eventually(lambda: _new(before))
    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless
    assert await sandbox.run(body("return {'a': a}"), "handler", {"a": 1}, seconds=5) == Returned(
        {"a": 1}
    )
    await sandbox.aclose()
    # Its end is noted a moment after it was killed.
    await eventually(lambda: not _new(before))
    assert _new(before) == []


async def test_calls_beyond_the_processes_wait_for_them() -> None:
    sandbox = MadeToolSandbox(processes=1)
    calls = [
        sandbox.run(body("return {'a': a}"), "handler", {"a": n}, seconds=5) for n in range(20)
    ]
    assert await asyncio.gather(*calls) == [Returned({"a": n}) for n in range(20)]
    await sandbox.aclose()


async def test_a_closed_sandbox_starts_again(sandbox: MadeToolSandbox) -> None:
    await sandbox.aclose()
    assert isinstance(await sandbox.run(body("return {}"), "handler", {}, seconds=5), Returned)


def _new(before: set[int]) -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children(recursive=True)
        if child.pid not in before and child.is_running()
    ]
