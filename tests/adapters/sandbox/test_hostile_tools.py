"""Tools that want out, in all the ways of `hostile_tools/`: refused as text, harmless when run.

Every tool runs with the static stage off, as if it had let all of them pass.
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from drafts import draft
from pydantic import JsonValue

from perdure.adapters.sandbox.generated_tools import MadeToolSandbox
from perdure.domain.generated_tools.code import check_code
from perdure.domain.generated_tools.dry_run import Returned, Trial
from perdure.domain.generated_tools.rejections import ToolRefused

SECRET = "canary-7d1f0a"
FOLDER = Path(__file__).parent / "hostile_tools"
SECONDS = 0.4
WITNESS = """
import json
import math
import re
def handler(*, text: str) -> dict:
    found = re.compile("a").findall(text)
    return {"json": json.dumps([1, len(found)]), "pi": round(math.pi, 3), "dict": dict(a=len(text))}
"""
WITNESSED: dict[str, JsonValue] = {"json": "[1, 2]", "pi": 3.142, "dict": {"a": 3}}


@dataclass(frozen=True)
class Hostile:
    """One tool of a file, with its placeholders."""

    name: str
    code: str


def tools_of(file: Path) -> list[Hostile]:
    parts = file.read_text(encoding="utf-8").split("--- ")[1:]
    return [
        Hostile(f"{file.stem}-{name.strip()}", whole(body))
        for name, _, body in (part.partition("\n") for part in parts)
    ]


def whole(body: str) -> str:
    """A body becomes a handler that returns what it bound to `out`."""
    if "def handler" in body:
        return body
    inner = "".join(f"    {line}\n" for line in body.splitlines())
    head = "def handler(*, text: str = '') -> dict:\n    out = text\n"
    return f"{head}{inner}    return {{'out': out, 'text': text}}\n"


FILES = sorted(FOLDER.glob("*/*.txt"))
REFUSED = [tool for file in FILES if file.parent.name == "refused" for tool in tools_of(file)]
CONTAINED = [tool for file in FILES if file.parent.name == "contained" for tool in tools_of(file)]


def test_there_are_enough_of_them() -> None:
    names = [tool.name for tool in (*REFUSED, *CONTAINED)]
    assert len(names) >= 150
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("tool", REFUSED, ids=lambda tool: tool.name)
def test_the_text_alone_gives_it_away(tool: Hostile) -> None:
    code = tool.code.replace("@PORT@", "80").replace("@PID@", "1")
    found = check_code(draft(code))
    assert isinstance(found, ToolRefused)
    assert found.stage == "static"


@dataclass(frozen=True)
class Site:
    """What a tool would reach if it got out."""

    sandbox: MadeToolSandbox
    folder: Path
    secret: Path
    port: socket.socket

    async def run(self, tool: Hostile) -> Trial:
        places = {
            "@FILE@": str(self.secret),
            "@FOLDER@": str(self.folder),
            "@PORT@": str(self.port.getsockname()[1]),
            "@PID@": str(os.getpid()),
        }
        code = tool.code
        for name, value in places.items():
            code = code.replace(name, value)
        return await self.sandbox.run(code, "handler", {"text": ""}, seconds=SECONDS)

    def reached(self) -> bool:
        try:
            self.port.accept()
        except BlockingIOError:
            return False
        return True


@pytest.fixture
def port() -> Generator[socket.socket]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        listening.setblocking(False)
        yield listening


@pytest.fixture
async def site(
    tmp_path: Path, port: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Site]:
    monkeypatch.setenv("PERDURE_CANARY", SECRET)
    secret = tmp_path / "secret.txt"
    secret.write_text(SECRET)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    sandbox = MadeToolSandbox()
    yield Site(sandbox=sandbox, folder=folder, secret=secret, port=port)
    await sandbox.aclose()


async def effects_of(site: Site, tools: list[Hostile]) -> dict[str, object]:
    """Run all of them, and look at everything that they could have changed: what they did."""
    children = {child.pid for child in psutil.Process().children(recursive=True)}
    began = time.monotonic()
    trials = await asyncio.gather(*(site.run(tool) for tool in tools))
    taken = time.monotonic() - began
    told = {tool.name: repr(trial) for tool, trial in zip(tools, trials, strict=True)}
    witness = await site.sandbox.run(WITNESS, "handler", {"text": "aba"}, seconds=10)
    await site.sandbox.aclose()
    # A process that was killed may take a moment to be gone.
    new = [one for one in psutil.Process().children(recursive=True) if one.pid not in children]
    late = time.monotonic() + 60
    while (left := [one for one in new if one.is_running()]) and time.monotonic() < late:
        await asyncio.sleep(0.05)
    effects: dict[str, object] = {
        "told the secret": [name for name, words in told.items() if SECRET in words],
        "flooded": [name for name, words in told.items() if len(words) > 5_000_000],
        "wrote": list(site.folder.iterdir()),
        "changed the secret": site.secret.read_text() != SECRET,
        "reached the network": site.reached(),
        "took for ever": taken >= 20 + len(tools) * (SECONDS + 2),
        "harmed the next": None if witness == Returned(WITNESSED) else witness,
        "left behind": left,
    }
    return {what: seen for what, seen in effects.items() if seen}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_none_has_an_effect_outside(site: Site, file: Path) -> None:
    assert await effects_of(site, tools_of(file)) == {}


async def test_a_result_is_what_the_handler_returned_and_nothing_that_it_printed(
    site: Site,
) -> None:
    printing = [tool for tool in CONTAINED if tool.name.startswith("results-printed")]
    trials = [await site.run(tool) for tool in printing]
    assert trials == [Returned({"out": "real", "text": ""})] * len(printing) != []


async def test_nothing_stays_from_one_call_to_the_next(site: Site) -> None:
    state = next(tool for tool in CONTAINED if tool.name.endswith("top_level_state"))
    assert [await site.run(state) for _ in range(3)] == [Returned({"out": 1})] * 3
