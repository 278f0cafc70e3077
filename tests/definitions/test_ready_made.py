"""The ready-made tasks: each is valid, and runs to its end with its own example."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from installation import Installation
from ready_made import example, programs_allowed

from perdure.adapters.checks import check_problems
from perdure.domain.foundation.errors import InvalidInput
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.run.result import RunResult
from perdure.interfaces.definitions import DEFINITIONS, definitions
from perdure.submission.loading import load, store
from perdure.submission.types import Surroundings

STRATEGIES = ("detailed", "keyword-focused", "section by section")
NAMES = [item.name for item in definitions()]
REFINED = [item.name for item in definitions() if item.kind == "refine"]
# Score by iteration, to two digits.
CURVES = {
    "code-change": [0.66, 1.0],
    "interview-analysis": [0.5, 0.75, 1.0],
    "job-matching": [0.0, 0.5, 0.5, 1.0],
    "product-page": [0.76, 0.94, 1.0],
    "release-notes": [0.67, 1.0],
    "resume-parsing": [0.0, 0.5, 1.0],
}


def feedback_is_long(result: RunResult) -> bool:
    return "Tell the conflict between the crews the same way" in (result.output or "")


def tools_were_used(result: RunResult) -> bool:
    return result.tools_used == {"shell.readonly": 2}


def lines_were_kept(result: RunResult) -> bool:
    return [item.model_calls for item in result.iterations] == [1, 3, 1]


def nothing_found_is_no_error(result: RunResult) -> bool:
    return [item.error for item in result.iterations] == [None] * 4


def the_minimum_is_computed(result: RunResult) -> bool:
    computed = [(item.adapted or {}).get("min_relevance") for item in result.iterations]
    return computed == [0.7, 0.5, 0.65, None] and nothing_found_is_no_error(result)


def suite_is_green(result: RunResult) -> bool:
    first, last = result.iterations
    assert first.dimensions["tests"].score == 0.5
    assert first.dimensions["lint"].score == 0.9
    return last.dimensions["tests"].score == 1.0 and {"patch"} <= {a.kind for a in result.artifacts}


def approaches_took_turns(result: RunResult) -> bool:
    tried = [item.adaptation for item in result.iterations]
    return [name in (told or "") for name, told in zip(STRATEGIES, tried, strict=True)] == [
        True
    ] * 3


SHOWN: dict[str, Callable[[RunResult], bool]] = {
    "code-change": suite_is_green,
    "interview-analysis": feedback_is_long,
    "job-matching": the_minimum_is_computed,
    "product-page": lines_were_kept,
    "resume-parsing": approaches_took_turns,
    "release-notes": tools_were_used,
}


def test_there_is_a_curve_for_every_task() -> None:
    assert set(CURVES) == set(REFINED)
    assert set(SHOWN) == set(REFINED)


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_it_is_for_and_how_to_run_it(name: str) -> None:
    (found,) = [item for item in definitions() if item.name == name]
    assert found.about.endswith(".")
    assert f"perdure run {name}" in found.text
    assert f"perdure run {name} --example" in found.text


@pytest.mark.parametrize("name", NAMES)
def test_nothing_starts_without_its_inputs(name: str, tmp_path: Path) -> None:
    (found,) = [item for item in definitions() if item.name == name]
    around = Surroundings(folder=tmp_path, definitions=DEFINITIONS, default_model="claude")
    if not found.inputs:
        assert load(name, surroundings=around).spec.kind == found.kind
        return
    with pytest.raises(InvalidInput) as caught:
        load(name, surroundings=around)
    assert all(f"--set context.{one}=" in str(caught.value) for one in found.inputs)


@pytest.fixture
async def site(bare: Installation, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Installation]:
    async with programs_allowed(bare, monkeypatch) as allowed:
        yield allowed


@pytest.mark.long
@pytest.mark.parametrize("name", REFINED)
async def test_each_runs_with_its_example(name: str, site: Installation, tmp_path: Path) -> None:
    submission = await example(name, tmp_path)
    assert isinstance(submission.spec, RefineSpec)
    assert check_problems(submission.spec.rubric) == ()
    assert submission.notes == ()
    spec = await store(submission, site.parts.stores.blobs)
    result = await site.gateway.result(await site.gateway.start(spec))
    assert (result.outcome, result.quality_met) == ("accepted", True), result.explanation
    assert [round(item.score or 0, 2) for item in result.iterations] == CURVES[name]
    assert SHOWN[name](result)
