"""Whether somebody works on the queues of a run: nobody there refuses a start, busy ones do not."""

import asyncio
from collections.abc import Sequence

from perdure.domain.errors import ModelUnavailable, NoReadyWorker
from perdure.domain.run import Site
from perdure.domain.serving import unserved
from perdure.domain.steps import ReadyReport
from perdure.interfaces.gateway.facts import QueueState, SiteFacts, Spec, Waits
from perdure.interfaces.gateway.server import Server

Question = tuple[str, float]


class Readiness:
    """Asks the queues; callers that ask the same at the same time share one question."""

    def __init__(self, server: Server, *, facts: SiteFacts, waits: Waits) -> None:
        self._server = server
        self._waits = waits
        self._worker_command = facts.worker_command
        self._asking: dict[Question, asyncio.Task[ReadyReport | None]] = {}

    async def of(self, site: Site) -> tuple[QueueState, ...]:
        """Ask every queue of a site at once."""
        states = (
            QueueState(queue=site.loops, serves="loops"),
            QueueState(queue=site.models, serves="models"),
            QueueState(queue=site.tools, serves="tools", workspace=site.folder),
        )
        return tuple(await asyncio.gather(*(self.ask(state) for state in states)))

    async def require(self, site: Site, spec: Spec) -> str | None:
        """Who is busy and did not answer, as a note; None when all answered.

        Raises:
            NoReadyWorker: a queue has nobody who fetches work.
            ModelUnavailable: the workers cannot call a model that the run needs.
        """
        states = await self.of(site)
        missing = [state for state in states if not state.served]
        if missing:
            raise _nobody(missing, of=len(states))
        asked_again = await asyncio.gather(*(self._patiently(state) for state in states))
        for state in asked_again:
            if without := unserved(spec, state.lacks):
                raise _uncallable(without)
        busy = [state for state in asked_again if state.busy]
        return _busy_note(busy, self._waits.patience) if busy else None

    async def ask(self, state: QueueState) -> QueueState:
        """One queue: whether somebody answers, or else fetched from it of late."""
        if (report := await self._report(state.queue, self._waits.ready)) is not None:
            return _answered(state, report)
        command = self._worker_command(state.workspace)
        busy = await self._server.polled(state.queue)
        return state.model_copy(update={"cure": f"Start one with {command}.", "busy": busy})

    async def _patiently(self, state: QueueState) -> QueueState:
        if not state.busy:
            return state
        report = await self._report(state.queue, self._waits.patience)
        return state if report is None else _answered(state, report)

    async def _report(self, queue: str, seconds: float) -> ReadyReport | None:
        """Ask once for all who ask now; for the others it goes on when one of them goes away."""
        key = queue, seconds
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._server.probe(queue, seconds=seconds))
            self._asking[key] = task
            task.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(task)

    def _answered(self, key: Question, done: "asyncio.Task[ReadyReport | None]") -> None:
        del self._asking[key]
        if not done.cancelled():
            done.exception()  # seen here, where nobody is left to see it


def _answered(state: QueueState, report: ReadyReport) -> QueueState:
    return state.model_copy(
        update={"ready": True, "busy": False, "version": report.version, "lacks": report.lacks}
    )


def _nobody(missing: Sequence[QueueState], *, of: int) -> NoReadyWorker:
    lines = "\n".join(f"  {_where(state)}" for state in missing)
    # The most precise one says it all: one worker serves all of them.
    cure = max((state.cure for state in missing), key=len)
    return NoReadyWorker(
        f"Nobody works on {len(missing)} of the {of} queues that this run needs:\n{lines}\n"
        "Nothing was started.",
        cure=cure,
    )


def _uncallable(without: Sequence[str]) -> ModelUnavailable:
    lines = "\n".join(f"  {one}." for one in without)
    return ModelUnavailable(
        f"The run needs models that no worker can call:\n{lines}\nNothing was started.",
        cure="Do what the line says, or name another model.",
    )


def _busy_note(busy: Sequence[QueueState], seconds: float) -> str:
    places = ", ".join(state.queue for state in busy)
    return (
        f"the workers of {places} are busy: they fetched work of late, but none answered within "
        f"{seconds:.0f} s. The run waits its turn. If it stays so: {busy[0].cure}"
    )


def _where(state: QueueState) -> str:
    folder = f" for the folder {state.workspace}" if state.workspace else ""
    return f"{state.serves}: queue {state.queue}{folder}"
