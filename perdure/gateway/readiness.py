"""Whether workers serve the queues of a run. A start needs workers, but they may be busy."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from perdure.domain.foundation.errors import (
    InvalidInput,
    ModelUnavailable,
    NoReadyWorker,
    ServiceUnavailable,
    VersionsApart,
)
from perdure.domain.installation.deployment import standing
from perdure.domain.model_availability import unserved
from perdure.domain.run.bookkeeping_messages import ReadyReport, Served, ServedPlugins
from perdure.domain.run.hooks import unserved_hooks
from perdure.domain.run.spec import Placement
from perdure.domain.specs import Spec
from perdure.gateway.temporal_gateway import TemporalGateway
from perdure.gateway.types import InstallationInfo, QueueState, Waits
from perdure.gateway.worker_probe import NothingToAskWith, queue_limit

Question = tuple[str, float]


class Readiness:
    """Asks the queues for their workers; concurrent equal questions share one probe.

    A good answer is cached for a while. A start is never refused from the cache: the workers are
    asked again first.
    """

    def __init__(
        self,
        server: TemporalGateway,
        *,
        facts: InstallationInfo,
        waits: Waits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = server
        self._waits = waits
        self._worker_command = facts.worker_command
        self._clock = clock
        self._version = facts.version
        self._asking: dict[Question, asyncio.Task[ReadyReport | None]] = {}
        self._known: dict[str, tuple[float, QueueState]] = {}
        # Beside the states, which the doors show: of this they need no more than what it decides.
        self._brought: dict[str, ServedPlugins] = {}

    async def of(self, site: Placement) -> tuple[QueueState, ...]:
        """Probe all queues of a placement at once."""
        return tuple(await asyncio.gather(*(self.ask(state) for state in _queues(site))))

    async def require(self, site: Placement, spec: Spec) -> str | None:
        """Require a worker on every queue; returns a note about busy ones, None if all answered.

        Raises:
            NoReadyWorker: a queue has no worker.
            ModelUnavailable: the workers cannot call a model that the run needs.
            InvalidInput: the workers do not serve a hook of the task.
            VersionsApart: the workers are too old or too new for this interface.
        """
        known = [self._answer(state.queue) for state in _queues(site)]
        if all(known):
            # A cached refusal may be out of date: a worker may have started since.
            with suppress(ServiceUnavailable, InvalidInput):
                return self._judge([state for state in known if state], spec)
        states = await self.of(site)
        missing = [state for state in states if not state.served]
        if missing:
            raise _nobody(missing, of=len(states))
        return self._judge(
            await asyncio.gather(*(self._patiently(state) for state in states)), spec
        )

    async def ask(self, state: QueueState) -> QueueState:
        """Probe one queue: does a worker answer, or did one poll it recently?"""
        # If nobody answers now, an earlier answer must not admit the next start.
        self._known.pop(state.queue, None)
        cure = f"Start one with {self._worker_command(state.workspace)}."
        try:
            report = await self._report(state.queue, self._waits.ready)
        except NothingToAskWith:
            seen = await self._seen(state.queue)
            return self._keep(state.model_copy(update={"cure": cure, "unasked": seen}))
        if report is not None:
            return self._heard(state, report)
        # A poller that has just died still counts, so this does not prove that a worker is alive.
        # It only tells a busy queue from one without workers.
        busy = await self._server.polled(state.queue)
        if (limit := await queue_limit(self._server, state.queue)) is not None:
            cure = limit.cure if busy else f"{cure} {limit.cure}"
            state = state.model_copy(update={"limit": limit.words})
        # Not cached, so that the next start asks again.
        return state.model_copy(update={"cure": cure, "busy": busy})

    async def _seen(self, queue: str) -> bool:
        """Whether the server sees a poller; waits as long as a probe, as one may just start."""
        deadline = self._clock() + self._waits.ready
        while not await self._server.polled(queue):
            if self._clock() >= deadline:
                return False
            await asyncio.sleep(self._waits.poll_first)
        return True

    async def served(self, queue: str, *, ask: bool = True) -> Served | None:
        """What the workers of the models queue report; None if none has answered.

        Args:
            queue: the queue.
            ask: ask the workers if no answer is cached.
        """
        state = self._answer(queue)
        if state is None and ask:
            state = await self.ask(QueueState(queue=queue, serves="models"))
        if state is None or not state.ready:
            return None
        return Served(models=state.models, plugins=self._brought.get(queue, ServedPlugins()))

    def _judge(self, states: Sequence[QueueState], spec: Spec) -> str | None:
        for state in states:
            _require_near(state, self._version)
            if without := unserved(spec, state.lacks):
                raise uncallable(without)
            if state.hooks and (absent := unserved_hooks(spec.hooks, state.hooks)):
                raise InvalidInput(
                    f"The run cannot start: {'; '.join(map(str, absent))}",
                    cure="Name a hook that the worker serves, or load its plugin there.",
                    problems=((problem.path, problem.found) for problem in absent),
                )
        busy = [state for state in states if state.busy]
        notes = [_busy_note(busy, self._waits.patience)] if busy else []
        notes += _older_notes(states, self._version)
        return "; ".join(notes) or None

    def _heard(self, state: QueueState, report: ReadyReport) -> QueueState:
        self._brought[state.queue] = report.plugins
        return self._keep(_answered(state, report))

    def _keep(self, state: QueueState) -> QueueState:
        if state.served:
            self._known[state.queue] = self._clock(), state
        return state

    def _answer(self, queue: str) -> QueueState | None:
        """The cached answer of a queue, if it is recent enough."""
        at, state = self._known.get(queue, (0.0, None))
        return state if state and self._clock() - at < self._waits.known else None

    async def _patiently(self, state: QueueState) -> QueueState:
        # A worker that was just killed counts as busy: it is better to let a run wait than to
        # refuse it.
        if not state.busy:
            return state
        report = await self._report(state.queue, self._waits.patience)
        return state if report is None else self._heard(state, report)

    async def _report(self, queue: str, seconds: float) -> ReadyReport | None:
        """Probe a queue once for all concurrent callers."""
        key = queue, seconds
        task = self._asking.get(key)
        if task is None:
            task = asyncio.create_task(self._server.probe(queue, seconds=seconds))
            self._asking[key] = task
            task.add_done_callback(lambda done: self._asked(key, done))
        # Shielded: the first caller may give up while others still wait for the same answer.
        return await asyncio.shield(task)

    def _asked(self, key: Question, done: "asyncio.Task[ReadyReport | None]") -> None:
        del self._asking[key]
        if not done.cancelled():
            done.exception()  # retrieve it, or asyncio warns if no caller is left to do so


def _queues(site: Placement) -> tuple[QueueState, ...]:
    return (
        QueueState(queue=site.loops, serves="loops"),
        QueueState(queue=site.models, serves="models"),
        QueueState(queue=site.tools, serves="tools", workspace=site.folder),
    )


def _answered(state: QueueState, report: ReadyReport) -> QueueState:
    return state.model_copy(
        update={
            "ready": True,
            "busy": False,
            "version": report.version,
            "lacks": report.lacks,
            "models": report.models,
            "hooks": report.hooks,
        }
    )


def _nobody(missing: Sequence[QueueState], *, of: int) -> NoReadyWorker:
    lines = "\n".join(f"  {_where(state)}" for state in missing)
    # One worker serves all the queues, so the longest, most precise hint is enough.
    cure = max((state.cure for state in missing), key=len)
    return NoReadyWorker(
        f"Nobody works on {len(missing)} of the {of} queues that this run needs:\n{lines}\n"
        "Nothing was started.",
        cure=cure,
    )


def _require_near(state: QueueState, ours: str) -> None:
    if not state.version or standing(state.version, ours) != "apart":
        return
    raise VersionsApart(
        f"The workers of {state.queue} are of version {state.version}, this client is of {ours}: "
        "they go together within one minor version. Nothing was started.",
        cure=f"Upgrade the older side: the workers to {ours}, or this client to {state.version} "
        "(docs/upgrades.md).",
    )


def _older_notes(states: Sequence[QueueState], ours: str) -> list[str]:
    """A note for each older version of workers, which ignore what only this version knows."""
    versions = {one.version for one in states if one.version}
    return [
        f"the workers are of version {version}, older than {ours}: what only {ours} knows is left "
        "out. Upgrade the workers."
        for version in sorted(versions)
        if standing(version, ours) == "older"
    ]


def uncallable(without: Sequence[str]) -> ModelUnavailable:
    """The error for a run whose models no worker can call."""
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
