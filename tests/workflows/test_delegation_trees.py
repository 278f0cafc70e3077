"""Delegation over random plans on a real server: honest failures, partial work and good work.

Workers fail honestly, half succeed, or do good work, some of them below a sub-manager. No subtask
is done that nobody did, no run ends stalled while it improves, and every run ends with a reason.
"""

import asyncio
import re
from collections.abc import Sequence
from random import Random

import pytest
from delegating import Reply, books_of_the_tree_agree, completes, decides, delegation, script, works
from installation import Installation

from perdure.domain.delegation.spec import DelegationSettings
from perdure.domain.evaluation.outcomes import REASONS
from perdure.domain.run.result import RunResult

AT_ONCE = 4
SETTINGS = DelegationSettings()
IMPROVED = SETTINGS.stall.min_confidence_delta
RANGES = {"failed": (0.0, 0.25), "partial": (0.3, 0.6), "good": (0.6, 1.0)}
STAND_STILL = {"stalled", "converged"}


class Tree:
    """A random plan and what its workers will bring, with the script that plays it.

    Attributes:
        stood_by: of each worker, how sure it is of what it brings; 0 where it brings nothing.
    """

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.stood_by: dict[str, float] = {}
        self.subtask_of: dict[str, str] = {}
        self.replies: list[Reply] = []
        self._write()

    def _write(self) -> None:
        chance = self.chance
        ids = [f"s{number}" for number in range(chance.randint(1, 5))]
        subtasks = [
            {"id": id, "title": f"part {id}", "depends_on": chance.sample(ids[:n], min(n, 1))}
            for n, id in enumerate(ids)
        ]
        self.replies.append(decides("plan", subtasks=subtasks))
        for round in range(chance.randint(2, 8)):
            chosen = chance.sample(ids, chance.randint(1, min(2, len(ids))))
            self.replies.append(self._round(round, chosen))
        self.replies += [completes()] * 3

    def _round(self, round: int, chosen: list[str]) -> Reply:
        work: list[dict[str, object]] = []
        for id in chosen:
            worker = f"{id}r{round}"
            below = self.chance.random() < 0.15
            self.subtask_of[worker] = id
            self._brings(worker, below=below)
            work.append(
                {
                    "worker": worker,
                    "subtask": id,
                    "instructions": f"Try {round} of the part {id}.",
                    "sub_manager": below,
                }
            )
        return decides("delegate", delegations=work)

    def _brings(self, worker: str, *, below: bool) -> None:
        kind = self.chance.choice(("crashed", "failed", "partial", "good", "good"))
        low, high = RANGES.get(kind, (0.0, 0.0))
        sure = round(self.chance.uniform(low, high), 2)
        self.stood_by[worker] = 0.0 if kind in {"crashed", "failed"} else sure
        if below:
            said = {} if self.stood_by[worker] else {"decision": "fail"}
            end = completes(f"{worker} did it", by=worker)
            told = {"confidence": sure, **said}
            self.replies.append({**end, "json": {**dict(end["json"]), **told}})  # type: ignore[call-overload]
        elif kind == "crashed":
            when = {"role": "worker", "worker": worker}
            self.replies.append({"when": when, "error": "bad_request"})
        elif kind == "failed":
            defects = [{"category": "missing", "text": "it did not work"}]
            self.replies.append(works(worker, "", sure, findings=[], defects=defects))
        else:
            self.replies.append(works(worker, f"{worker} made {self.chance.random()}", sure))


async def done_in(site: Installation, run: str) -> set[str]:
    """The subtasks that stand as done in the plan as the run told it last."""
    status = await site.status(run)
    marked = (re.match(r"(s\d+) \[done\b", line) for line in status.plan)
    return {found[1] for found in marked if found}


def scores_of(result: RunResult) -> list[float]:
    return [record.score for record in result.iterations if record.score is not None]


def improves(scores: list[float]) -> bool:
    """Whether the newest reading is better than all before it, by the smallest gain."""
    *before, newest = scores or [0.0]
    return bool(before) and round(newest - max(before), 6) >= IMPROVED


async def prove(site: Installation, seed: int) -> None:
    tree = Tree(seed)
    result = await site.run(
        delegation(
            delegation={"max_iterations": 12}, budget={"model_calls": 60, "tokens": 2_000_000}
        ),
        script(*tree.replies),
    )
    assert result.reason in REASONS[result.outcome], (seed, result)
    done = await done_in(site, result.id)
    did = {
        tree.subtask_of[worker]
        for worker, sure in tree.stood_by.items()
        if sure >= SETTINGS.min_confidence
    }
    assert done <= did, (seed, done - did)
    scores = scores_of(result)
    assert not (result.reason in STAND_STILL and improves(scores)), (seed, result.reason, scores)
    await books_of_the_tree_agree(site, result)


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param((2, 9), id="quick"),
        pytest.param(range(100), id="all", marks=[pytest.mark.slow, pytest.mark.timeout(1_800)]),
    ],
)
async def test_nothing_is_done_that_nobody_did(site: Installation, seeds: Sequence[int]) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(seed: int) -> None:
        async with limit:
            await prove(site, seed)

    ends = await asyncio.gather(*(one(seed) for seed in seeds), return_exceptions=True)
    wrong = [end for end in ends if isinstance(end, Exception)]
    if wrong:
        raise ExceptionGroup("trees", wrong)
