"""What becomes of work that is done once more: its name, and what the first try left."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from pydantic import TypeAdapter
from temporalio import workflow

from perdure.domain.delegation.decisions import WORD_CHARACTERS, Envelope
from perdure.domain.delegation.messages import WorkRead
from perdure.workflows.delegation_parts.work_items import (
    WorkItem,
    in_place_of,
    lacks_its_tool,
    report_of,
    went_on,
)
from perdure.workflows.delegation_parts.worker_runs import WorkerRuns
from perdure.workflows.engine.child_runs import ChildSpec, NotStarted

NOBODY = NotStarted(order=cast(ChildSpec, None), why="")


def piece(worker: str, read: WorkRead | None = None) -> WorkItem:
    work = Envelope(worker=worker, instructions="Count the words.")
    return WorkItem(work, "", NOBODY, read or WorkRead())


@pytest.mark.parametrize("suffix", ["_repair", "_retry1"])
async def test_a_step_takes_a_further_try_of_a_worker_with_the_longest_name(suffix: str) -> None:
    tries: list[Envelope] = []

    async def run_pieces(envelopes: Sequence[Envelope], *_: object, **__: object) -> list[WorkItem]:
        tries.extend(envelopes)
        return []

    runs = object.__new__(WorkerRuns)
    setattr(runs, "_run_pieces", run_pieces)  # noqa: B010
    await runs._again([(piece("w" * WORD_CHARACTERS), "once more")], suffix=suffix)
    given = TypeAdapter(Envelope).validate_json(tries[0].model_dump_json())
    assert given.worker.endswith(suffix)


def test_a_repair_keeps_what_the_first_try_asked_for_and_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: True)
    first = replace(piece("w", WorkRead(drafts=("one", "two"), skills=("a",))), below=("parsing",))
    repair = piece("w_repair", WorkRead(drafts=("two", "three"), skills=("b",)))
    kept = in_place_of(first, repair)
    assert kept.envelope.worker == "w"
    assert kept.read.drafts == ("one", "two", "three")
    assert kept.read.skills == ("a", "b")
    assert kept.below == ("parsing",)


def test_a_repair_of_work_that_left_nothing_needs_no_mark_in_the_history() -> None:
    kept = in_place_of(piece("w", WorkRead(drafts=("one",))), piece("w", WorkRead(drafts=("one",))))
    assert kept.read.drafts == ("one",)


@pytest.mark.parametrize(("patched", "end"), [(True, "deferred"), (False, "crashed")])
def test_work_without_budget_has_not_begun(
    patched: bool, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workflow, "patched", lambda _: patched)
    assert report_of(piece("w")).end == end


def read(confidence: float | None, *, states: bool = True, doubtful: bool = False) -> WorkRead:
    stated = confidence if states else None
    return WorkRead(confidence=confidence, stated=stated, doubtful=doubtful, usable=True)


@pytest.mark.parametrize(
    ("work", "lacks", "before"),
    [
        pytest.param(read(0.79), True, True, id="less sure"),
        pytest.param(read(0.8), False, False, id="sure"),
        pytest.param(read(0.0), True, True, id="failed"),
        pytest.param(read(0.3, states=False), False, True, id="says nothing"),
        pytest.param(read(0.3, states=False, doubtful=True), True, True, id="in doubt"),
        pytest.param(read(None), True, True, id="unread"),
    ],
)
def test_who_goes_on_with_the_tool_that_it_asked_for(
    work: WorkRead, lacks: bool, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for patched, expected in ((True, lacks), (False, before)):
        monkeypatch.setattr(workflow, "patched", lambda _, said=patched: said)
        assert lacks_its_tool(work) is expected


@pytest.mark.parametrize(
    ("second", "taken", "before"),
    [
        pytest.param(read(0.5), True, True, id="as sure"),
        pytest.param(read(0.4), False, False, id="less sure"),
        pytest.param(read(0.4, states=False), True, False, id="says nothing"),
        pytest.param(read(0.4, states=False, doubtful=True), False, False, id="in doubt"),
        pytest.param(WorkRead(confidence=0.9, stated=0.9), False, False, id="no result"),
    ],
)
def test_which_result_counts_of_who_went_on(
    second: WorkRead, taken: bool, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = piece("w", read(0.5))
    for patched, expected in ((True, taken), (False, before)):
        monkeypatch.setattr(workflow, "patched", lambda _, said=patched: said)
        assert (went_on(first, piece("w_retry1", second)) is not first) is expected
