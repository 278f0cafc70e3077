"""Questions to many runs: a few at once, and none to runs without a worker."""

import asyncio

import pytest

from perdure.domain.foundation.errors import NoReadyWorker, NotAllowed
from perdure.gateway.ask_many import AskMany

AT_ONCE = 4
MANY = 40


class Runs:
    """Runs of a queue, of which some are silent; counts what they are asked."""

    def __init__(self, *silent: int, worker: bool = True) -> None:
        self.silent, self.worker = frozenset(silent), worker
        self.asked: list[int] = []
        self.open = self.most = self.probes = 0

    async def answer(self, run: int) -> int:
        self.asked.append(run)
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)
        self.open -= 1
        if run in self.silent:
            raise NoReadyWorker(f"{run} is silent.")
        return run

    async def present(self, _queue: str) -> bool:
        self.probes += 1
        await asyncio.sleep(0)
        return self.worker

    async def all(self) -> list[int | BaseException]:
        many = AskMany("loops", at_once=AT_ONCE, present=self.present)
        asking = (many.ask(lambda run=run: self.answer(run)) for run in range(MANY))  # type: ignore[misc]
        return await asyncio.gather(*asking, return_exceptions=True)


async def test_all_are_asked_and_few_at_once() -> None:
    runs = Runs()
    assert await runs.all() == list(range(MANY))
    assert (runs.most, runs.probes) == (AT_ONCE, 0)


async def test_without_a_worker_the_rest_is_not_asked() -> None:
    runs = Runs(*range(MANY), worker=False)
    answers = await runs.all()
    assert all(isinstance(answer, NoReadyWorker) for answer in answers)
    assert len(runs.asked) < 2 * AT_ONCE
    assert runs.probes == 1
    assert "nothing was sent to it" in str(answers[-1])


async def test_silent_runs_beside_a_worker_hide_no_other() -> None:
    runs = Runs(*range(MANY - 1))
    answers = await runs.all()
    assert answers[-1] == MANY - 1
    assert len(runs.asked) == MANY


async def test_a_few_silent_runs_raise_no_doubt() -> None:
    runs = Runs(3, 4, 5, worker=False)
    assert sum(isinstance(answer, int) for answer in await runs.all()) == MANY - 3
    assert runs.probes == 0


async def test_a_refusal_is_an_answer() -> None:
    many = AskMany("loops", at_once=1, present=Runs(worker=False).present)

    async def refused() -> int:
        raise NotAllowed("It is paused already.")

    for _ in range(3):
        with pytest.raises(NotAllowed):
            await many.ask(refused)
