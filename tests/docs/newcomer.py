"""One who has an empty folder, a shell and the command `perdure`, and does what a page says."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from leftovers import MARK

from perdure.adapters.settings.variables import Settings
from perdure.local_services.embedded_runtime import EmbeddedRuntime
from tests.docs.test_blocks import FENCE
from tests.local_services.support import free_port

NAMED = re.compile(r"`([\w-]+\.(?:yaml|py))`[^`]*\n\n\Z")
GATE = re.compile(r"\bg1-[0-9a-f]{4}\b")
PORTS = ("TEMPORAL_PORT", "UI_PORT", "CODEC_PORT", "API_PORT")


def section(page: str, heading: str) -> str:
    """What stands below a heading, up to the next one of its level."""
    return page.partition(f"\n## {heading}")[2].partition("\n## ")[0]


def steps(text: str) -> list[tuple[str, str, str]]:
    """Each block with its language and the file that the words before it have a reader save."""
    found: list[tuple[str, str, str]] = []
    for block in FENCE.finditer(text):
        named = NAMED.search(text[: block.start()])
        found.append((block[1], named[1] if named else "", block[2]))
    return found


class Newcomer:
    """One who has a folder and the command."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder, self.environment = folder, dict(environment)
        self.said = ""
        self.knows: dict[str, str] = {}

    def told(self, line: str) -> str:
        """A line of a page with the names that this newcomer knows in place of the page's."""
        gates = GATE.findall(self.said)
        line = GATE.sub(gates[0], line) if gates else line
        for name, known in self.knows.items():
            line = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", known, line)
        return line

    async def save(self, name: str, text: str) -> None:
        """A file; a block that is no whole file is a line more of the rubric, as the page says."""
        file = self.folder / name
        if text.startswith("  - "):
            whole = file.read_text()
            text = whole.replace("refine:", f"{text}refine:", 1)
        file.write_text(text)

    async def shell(self, block: str) -> str:
        """What the commands of a block print; every one of them must go well."""
        process = await self._started(block)
        out, _ = await process.communicate()
        self.said = out.decode()
        assert process.returncode == 0, f"{block}\n{self.said}"
        return self.said

    async def looked_at(self, block: str, *, until: str) -> str:
        """What a command prints that does not end by itself, up to some words; then it is ended."""
        process = await self._started(block)
        assert process.stdout is not None
        shown = b""
        while until.encode() not in shown:
            more = await process.stdout.read(4096)
            assert more, f"{block} ended with {shown.decode()}"
            shown += more
        process.terminate()
        rest, _ = await process.communicate()
        self.said = (shown + rest).decode()
        return self.said

    async def follow(self, text: str) -> list[str]:
        """Save what is to be saved, run what is to be run: what each block of commands printed."""
        told: list[str] = []
        for language, name, block in steps(text):
            if language in ("yaml", "python"):
                await self.save(name, block)
            elif language == "sh":
                told.append(await self.shell(self.told(block)))
        return told

    async def _started(self, block: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            "/bin/sh", "-eu", "-c", block,
            cwd=self.folder, env=dict(self.environment),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip


@asynccontextmanager
async def arrived(tmp_path: Path) -> AsyncGenerator[Newcomer]:
    """A newcomer, whose services are ended at the end."""
    (folder := tmp_path / "empty").mkdir()
    (path := tmp_path / "path").mkdir()
    (path / "perdure").symlink_to(Path(sys.executable).parent / "perdure")
    home = tmp_path / "home"
    told = {f"PERDURE_{name}": str(free_port()) for name in PORTS}
    told |= {"PERDURE_HOME": str(home), "HOME": str(tmp_path), "PATH": str(path)}
    try:
        told |= {"PERDURE_LOCAL_MODEL": "off", "LANG": "C.UTF-8", MARK: os.environ[MARK]}
        yield Newcomer(folder, told)
    finally:
        await EmbeddedRuntime(Settings.load(home=home)).down()
