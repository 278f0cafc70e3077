"""The tutorial's files, taken from its page, do what the page shows."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from installation import Installation
from stages import open_gate
from telling import told

from perdure import CheckResult
from perdure.interfaces.definitions import DEFINITIONS
from perdure.submission.loading import load, store
from perdure.submission.types import Flags, Surroundings
from tests.docs.test_tasks import rounded

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
STEPS = dict(re.findall(r"^## (\d)\. [^\n]+\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))
NAMED = re.compile(r"`([\w-]+\.(?:yaml|py))`[^`]*\n\n```\w+\n(.*?)```", re.DOTALL)


def files(step: str) -> dict[str, str]:
    """The files that a step has its reader save."""
    return dict(NAMED.findall(STEPS[step]))


async def started(site: Installation, folder: Path, step: str, task: str) -> str:
    for name, text in files(step).items():
        (folder / name).write_text(text, encoding="utf-8")
    surroundings = Surroundings(folder=folder, definitions=DEFINITIONS)
    submission = load(task, Flags(), surroundings=surroundings)
    return await site.gateway.start(await store(submission, site.parts.stores.blobs))


async def test_the_first_task_prints_what_is_shown(site: Installation, tmp_path: Path) -> None:
    run = await started(site, tmp_path, "3", "bottle.yaml")
    shown = re.findall(r"```text\n(.*?)```", STEPS["3"], re.DOTALL)[0].splitlines()
    _ = await site.gateway.result(run)
    lines = [line for line in shown if line.startswith("[")]
    assert rounded(await told(site, run)) == rounded(lines)


@pytest.mark.parametrize(
    ("output", "score"), [("It is made for you.", 0.0), ("A steel bottle.", 1.0)]
)
def test_the_check_scores_plain_words(output: str, score: float) -> None:
    names: dict[str, object] = {}
    exec(compile(files("4")["plain.py"], "plain.py", "exec"), names)
    plain = cast("Callable[[str], CheckResult]", names["plain"])
    assert plain(output).score == score


async def test_the_question_is_the_one_that_is_shown(site: Installation, tmp_path: Path) -> None:
    run = await started(site, tmp_path, "6", "notes.yaml")
    gate = await open_gate(site, run)
    assert gate.name in STEPS["6"]
