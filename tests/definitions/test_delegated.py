"""The ready-made tasks of a manager run to their end with their own examples."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from installation import Installation
from ready_made import example, programs_allowed
from telling import told

from perdure.domain.run.result import RunResult
from perdure.interfaces.definitions import definitions
from perdure.submission.loading import store

NAMES = [item.name for item in definitions() if item.kind == "delegation"]


def sources_are_named(result: RunResult) -> bool:
    output = result.output or ""
    named = all(name in output for name in ("garden-diary.md", "newsletter.md", "soil-test.md"))
    return named and result.skills == ("weighing-sources",)


def nothing_passed_before_the_tests(result: RunResult) -> bool:
    kinds = {artifact.kind for artifact in result.artifacts}
    said = [record.adaptation or "" for record in result.iterations]
    return {"patch", "tree"} <= kinds and "placeholders" in said[1]


def a_made_tool_did_the_counting(result: RunResult) -> bool:
    """The figures of the answer are those that the tool returned for the table of the example."""
    made = result.tools_created == ("table.figures",) and result.tools_used["table.figures"] == 1
    output = result.output or ""
    facts = ("| fountain | 5 | 375.70 |", "| north gate | 5 | 361.00 |", "| station | 4 | 301.25 |")
    return made and all(fact in output for fact in facts)


SHOWN: dict[str, Callable[[RunResult], bool]] = {
    "code-feature": nothing_passed_before_the_tests,
    "data-analysis": a_made_tool_did_the_counting,
    "research-synthesis": sources_are_named,
}


@pytest.fixture
async def site(bare: Installation, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Installation]:
    async with programs_allowed(bare, monkeypatch) as allowed:
        yield allowed


def test_every_one_is_looked_at() -> None:
    assert set(SHOWN) == set(NAMES)


@pytest.mark.long
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
