"""The ready-made tasks of a manager run to their end with their own examples."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from installation import Installation
from ready_made import example, programs_allowed
from telling import told

from perdure.domain.result import RunResult
from perdure.interfaces.definitions import definitions
from perdure.interfaces.submission import store

NAMES = [item.name for item in definitions() if item.kind == "delegation"]


def sources_are_named(result: RunResult) -> bool:
    output = result.output or ""
    named = all(name in output for name in ("garden-diary.md", "newsletter.md", "soil-test.md"))
    return named and result.skills == ("weighing-sources",)


def nothing_passed_before_the_tests(result: RunResult) -> bool:
    kinds = {artifact.kind for artifact in result.artifacts}
    said = [record.adaptation or "" for record in result.iterations]
    return {"patch", "tree"} <= kinds and "placeholders" in said[1]


SHOWN: dict[str, Callable[[RunResult], bool]] = {
    "code-feature": nothing_passed_before_the_tests,
    "research-synthesis": sources_are_named,
}


@pytest.fixture
async def site(bare: Installation, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Installation]:
    async with programs_allowed(bare, monkeypatch) as allowed:
        yield allowed


def test_every_one_is_looked_at() -> None:
    assert set(SHOWN) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
async def test_each_runs_with_its_example(name: str, site: Installation, tmp_path: Path) -> None:
    submission = await example(name, tmp_path)
    assert submission.notes == ()
    spec = await store(submission, site.parts.stores.blobs)
    result = await site.gateway.result(await site.gateway.start(spec))
    assert (result.outcome, result.reason) == ("accepted", "completed"), (
        result.explanation,
        *await told(site, result.id),
    )
    assert SHOWN[name](result)
