"""A newcomer's first hour: the commands of README and tutorial, one after the other, as they stand.

In an empty folder, by a shell that finds the command `perdure` and nothing else, with services
that the first command starts. The tutorial brings a script for its model; the README gets one.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from leftovers import MARK

from perdure.adapters.settings.variables import Settings
from perdure.local_services.embedded import EmbeddedRuntime
from tests.docs.test_blocks import FENCE, ROOT
from tests.local_services.support import free_port

README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
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
        self.folder, self.environment = folder, environment
        self.said = ""

    async def save(self, name: str, text: str) -> None:
        """A file; a block that is no whole file is a line more of the rubric, as the page says."""
        file = self.folder / name
        if text.startswith("  - "):
            whole = file.read_text()
            text = whole.replace("refine:", f"{text}refine:", 1)
        file.write_text(text)

    async def shell(self, block: str) -> str:
        """What the commands of a block print; every one of them must go well."""
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-eu", "-c", block,
            cwd=self.folder, env=dict(self.environment),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate()
        self.said = out.decode()
        assert process.returncode == 0, f"{block}\n{self.said}"
        return self.said

    async def follow(self, text: str) -> list[str]:
        """Save what is to be saved, run what is to be run: what each block of commands printed."""
        told: list[str] = []
        for language, name, block in steps(text):
            if language in ("yaml", "python"):
                await self.save(name, block)
            elif language == "sh":
                gates = GATE.findall(self.said)
                told.append(await self.shell(GATE.sub(gates[0], block) if gates else block))
        return told


@pytest.fixture
async def newcomer(tmp_path: Path) -> AsyncIterator[Newcomer]:
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


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_the_tutorial_is_walked_as_it_stands(newcomer: Newcomer) -> None:
    # Installing and a real model (1 and 7) are tried by hand.
    second, third, fourth, fifth, sixth = [
        section(TUTORIAL, f"{number}. ") for number in range(2, 7)
    ]
    (ready_made,) = await newcomer.follow(second)
    assert "[iter 2/3] score 1.00" in ready_made
    planned, story = await newcomer.follow(third)
    assert "[done] 3 iterations" in planned
    assert "wanted: Use at most 25 words." in story
    (checked,) = await newcomer.follow(fourth)
    assert "[iter 1/4] score 0.25" in checked and "[iter 3/4] score 1.00" in checked
    (priced,) = await newcomer.follow(fifth)
    assert "[tool] shop.price steel bottle → 19.90 €" in priced and "answered" in priced
    asked, answered, applied = await newcomer.follow(sixth)
    assert "Approve fs.write?" in asked and "notes.md" in answered + applied
    assert (newcomer.folder / "notes.md").read_text() == "Faster starts, and two bugs less.\n"


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_the_first_task_of_the_readme_is_walked_as_it_stands(newcomer: Newcomer) -> None:
    written = "A steel bottle, warm in the hand, safe in the dishwasher."
    (newcomer.folder / "replies.yaml").write_text(
        f"replies:\n  - {{when: {{role: executor}}, text: '{written}'}}\n"
        "  - when: {role: evaluator}\n"
        "    json: {dimensions: [{name: tone, score: 1.0}], findings: []}\n"
    )
    (newcomer.folder / "perdure.yaml").write_text("models: {executor: scripted:replies.yaml}\n")
    (commands,) = await newcomer.follow(section(README, "Your first task"))
    assert "✓ bottle.yaml is a valid task" in commands
    assert written in commands and "quality met" in commands
