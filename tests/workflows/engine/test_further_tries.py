"""What becomes of work that is done once more: its name, and what the first try left."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import pytest
from pydantic import TypeAdapter
from temporalio import workflow

from perdure.domain.delegation.decisions import WORD_CHARACTERS, Envelope
from perdure.domain.delegation.messages import WorkRead
from perdure.workflows.delegation_parts.work_items import WorkItem, in_place_of, report_of
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
