"""The page on embedding: its whole files run as they stand, its parts where it says that they go.

A block is a whole file (`This is `orders.py`:`) or a part of one: it goes into the `run` of a
workflow of that file, or to its end.
"""

import asyncio
import importlib.util
import os
import re
import sys
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from installation import Installation
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from perdure.embedding.activity_targets import activity_type
from perdure.temporal import PerdurePlugin
from tests.docs.test_blocks import FENCE, ROOT

PAGE = (ROOT / "docs" / "embedding.md").read_text(encoding="utf-8")
WHOLE = re.compile(r"This is `([\w-]+\.py)`[^`]*(?:`[^`]+`[^`]*)*:\n\n\Z")
IN_RUN = re.compile(r"In the `run` of `([\w-]+\.py)`[^\n]*:\n\n\Z")
AT_END = re.compile(r"At the end of `([\w-]+\.py)`:\n\n\Z")
BLOCKS = [(PAGE[: one.start()], one[2]) for one in FENCE.finditer(PAGE) if one[1] == "python"]
FILES = {found[1]: text for before, text in BLOCKS if (found := WHOLE.search(before))}
PARTS = [(found[1], text) for before, text in BLOCKS if (found := IN_RUN.search(before))]
ENDS = [(found[1], text) for before, text in BLOCKS if (found := AT_END.search(before))]

# What `own_models.py` has beside it.
ACME = """
from tests.embedding.test_plugin_parts import Parrot as AcmeModel
"""
EDITOR = "---\naccess: minimal\n---\nYou are the editor.\n"
GAZETTE = {"name": "gazette", "roles": [{"name": "write", "role": "editor", "prompt": "Write."}]}
PAID = "receipt-1 is paid back."
CALL = {"tool_calls": [{"name": "refund", "arguments": {"receipt": "receipt-1"}}]}
MAIL = "Thank you for the bottle."


def test_every_block_is_a_file_or_a_part_of_one() -> None:
    assert set(FILES) == {
        "worker.py", "orders.py", "shop.py", "refunds.py", "own_words.py", "own_models.py",
        "test_orders.py",
    }  # fmt: skip
    assert [name for name, _ in PARTS] == ["orders.py"] * 3
    assert [name for name, _ in ENDS] == ["test_orders.py"]
    assert len(FILES) + len(PARTS) + len(ENDS) == len(BLOCKS)


@pytest.fixture
def folder(bare: Installation, tmp_path: Path) -> Path:
    """The files of the page, and those that they name."""
    (made := tmp_path / "theirs").mkdir()
    for name, text in FILES.items():
        ends = "".join(f"\n\n{part}" for file, part in ENDS if file == name)
        (made / name).write_text(text + ends, encoding="utf-8")
    (made / "acme.py").write_text(ACME)
    (made / "roles").mkdir()
    (made / "roles" / "editor.md").write_text(EDITOR)
    (made / "gazette.yaml").write_text(yaml.safe_dump(GAZETTE))
    return made


async def _plays(bare: Installation, *replies: object) -> None:
    """Have the default model of the worker give these replies."""
    model = await bare.script({"replies": list(replies)})
    (bare.home / "perdure.yaml").write_text(yaml.safe_dump({"models": {"executor": model}}))


def _environment(bare: Installation) -> dict[str, str]:
    return {**bare.settings.as_environment(), "TEMPORAL_ADDRESS": bare.address}


@contextmanager
def _imported(folder: Path, *names: str) -> Generator[list[ModuleType]]:
    """Modules of the folder, which is the current one meanwhile; they are forgotten after."""
    known, before = set(sys.modules), Path.cwd()
    sys.path.insert(0, str(folder))
    os.chdir(folder)
    try:
        yield [importlib.import_module(name) for name in names]
    finally:
        os.chdir(before)
        sys.path.remove(str(folder))
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                del sys.modules[name]


async def test_the_worker_serves_the_workflow(bare: Installation, folder: Path) -> None:
    await _plays(bare, {"text": "Thanks."}, {"text": MAIL})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "worker.py", cwd=folder, env={**os.environ, **_environment(bare)}
    )
    try:
        async with asyncio.timeout(90):
            told = await bare.client.execute_workflow(
                "OrderWorkflow", {"id": _id(), "item": "bottle"}, id=_id(), task_queue="orders"
            )
    finally:
        process.kill()
        await process.wait()
    assert told == MAIL


def _id() -> str:
    return f"order-{uuid.uuid4().hex[:8]}"


LONG = "word " * 59 + "word" * 5_000
REPLIES = [[{"text": LONG, "times": 9}], [{"text": MAIL, "times": 9}], [CALL, {"text": PAID}]]
TOLD = [LONG, MAIL, PAID]


@pytest.mark.parametrize(
    ("part", "replies", "told"),
    list(zip([text for _, text in PARTS], REPLIES, TOLD, strict=True)),
    ids=["a long output", "a wait that ends", "its gates"],
)
async def test_a_part_of_a_workflow(
    bare: Installation,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    part: str,
    replies: list[object],
    told: str,
) -> None:
    for name, value in _environment(bare).items():
        monkeypatch.setenv(name, value)
    await _plays(bare, *replies)
    inside = "".join(f"        {line}\n" if line else "\n" for line in part.splitlines())
    with (folder / "orders.py").open("a") as file:
        file.write(f"""

@workflow.defn
class Part:
    @workflow.run
    async def run(self, order: Order) -> str:
{inside}
        return result.output
""")
    with _imported(folder, "orders", "refunds") as (orders, refunds):
        client = await Client.connect(bare.address, plugins=[refunds.plugin])
        queue = _id()
        async with Worker(
            client,
            task_queue=queue,
            workflows=[orders.Part],
            activities=[orders.charge, refunds.refund],
        ):
            order = orders.Order(id="1", item="bottle")
            assert await client.execute_workflow("Part", order, id=queue, task_queue=queue) == told


@pytest.mark.parametrize("name", ["shop", "refunds", "own_words", "own_models"])
async def test_a_plugin_serves_loops(
    bare: Installation, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for variable, value in _environment(bare).items():
        monkeypatch.setenv(variable, value)
    await _plays(bare, {"text": "Said."})
    with _imported(folder, name) as (module,):
        assert isinstance(module.plugin, PerdurePlugin)
        client = await Client.connect(bare.address, plugins=[module.plugin])
        queue = _id()
        async with Worker(client, task_queue=queue, activities=_activities(module)):
            result = await client.execute_workflow(
                "AgentLoop", {"goal": "Say it."}, id=queue, task_queue=queue
            )
    assert result["output"] == "Said."


def _activities(module: ModuleType) -> list[Any]:
    """The activities of a module, or one of the test's: a worker needs something to do."""
    return [one for one in vars(module).values() if activity_type(one)] or [idle]


@activity.defn
async def idle() -> None:
    """Nothing."""


async def test_the_tests_of_the_page_pass(folder: Path) -> None:
    (folder / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "test_orders.py",
        cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()[-3000:]
    assert "2 passed" in out.decode()
