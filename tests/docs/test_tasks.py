"""The page on ready-made tasks shows what their examples really print."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from installation import Installation
from ready_made import example, programs_allowed
from telling import told

from perdure.interfaces.definitions import definitions
from perdure.submission.loading import store

PAGE = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
SHOWN = {
    name: text.rstrip().splitlines()
    for name, text in re.findall(
        r"```text\n\$ perdure run ([a-z-]+) --example\n(.*?)```", PAGE, re.DOTALL
    )
}


# Sizes of prompts change with every word of them; the page gives their order.
SAVED = re.compile(r" \(\d+ % tokens saved\)")
FIGURES = re.compile(r"(?<=[ (])[$\d.,]+k?(?=( % tokens saved| tokens|[ ,·]))")


def rounded(lines: list[str]) -> list[str]:
    """The lines without the figures of tokens and money."""
    return [
        FIGURES.sub("…", line) if "tokens" in line and "score" not in line else SAVED.sub("", line)
        for line in lines
    ]


def test_every_task_is_shown() -> None:
    assert set(SHOWN) == {item.name for item in definitions()}


@pytest.fixture
async def site(bare: Installation, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Installation]:
    async with programs_allowed(bare, monkeypatch) as allowed:
        yield allowed


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(SHOWN))
async def test_the_page_shows_what_is_printed(
    name: str, site: Installation, tmp_path: Path
) -> None:
    submission = await example(name, tmp_path)
    run = await site.gateway.start(await store(submission, site.parts.stores.blobs))
    await site.gateway.result(run)
    assert rounded(await told(site, run)) == rounded(SHOWN[name])
