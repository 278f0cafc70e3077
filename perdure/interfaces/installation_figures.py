"""Metrics of the installation, from its store and its server.

A look costs a fixed number of queries and requests. Figures of an unavailable part are left out,
because an unknown number is not 0.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from perdure.domain.foundation.errors import PerdureError, StoreError
from perdure.domain.run import metrics
from perdure.domain.run.figures import CallSums, Figures, Samples, ServerLoad, StoreFigures
from perdure.domain.run.metrics import Metric
from perdure.interfaces.gateways import RunGateway

STORE, SERVER = "store", "server"
INPUT, CACHE_READ, OUTPUT = "input", "cache_read", "output"
# A lost call counts as settled after this time, even if its worker could still report it.
SETTLED_AFTER = timedelta(hours=1)
# For how long metrics count events that need a person and do not repeat by themselves.
LATELY = timedelta(days=1)
# The most steps of one look. Only after a long time without looks is there more to add up.
STEPS = 20


class InstallationFigures:
    """Collects the figures of an installation.

    The store adds up each call once. Until a look has caught up with all calls, it leaves the spend
    out: a sum that catches up would look like a burst of spending.
    """

    def __init__(
        self, store: StoreFigures, gateway: RunGateway, *, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._gateway = gateway
        self._now = now

    async def look(self) -> Figures:
        """All samples that are available now."""
        of_store, of_server = await asyncio.gather(self._of_store(), self._of_server())
        up = {**of_store.get(metrics.PART_UP, {}), **of_server.get(metrics.PART_UP, {})}
        return {**of_store, **of_server, metrics.PART_UP: up}

    async def _of_store(self) -> Figures:
        try:
            runs, ends = await self._store.runs(), await self._store.ends()
            calls, sizes = await self._calls(), await self._store.sizes()
            late = await self._of_late()
        except PerdureError:
            return {metrics.PART_UP: {(STORE,): 0.0}}
        return {
            metrics.PART_UP: {(STORE,): 1.0},
            metrics.RUNS: {tuple(state): count for state, count in runs.items()},
            metrics.RUN_ENDS: {tuple(state): count for state, count in ends.items()},
            metrics.STORE_BYTES: {(table,): size for table, size in sizes.items()},
            **calls,
            **late,
        }

    async def _of_late(self) -> Figures:
        since = self._now() - LATELY
        refused = await self._store.refused_starts(since=since)
        return {
            metrics.NOTICES_DEAD: {(): await self._store.dead_notices(since=since)},
            metrics.STARTS_REFUSED: {(name,): count for name, count in refused.items()},
        }

    async def _of_server(self) -> Figures:
        try:
            load = await self._gateway.load()
        except StoreError:
            return {}  # asking failed here, which says nothing about the server
        except PerdureError:
            return {metrics.PART_UP: {(SERVER,): 0.0}}
        return {metrics.PART_UP: {(SERVER,): 1.0}, **waiting(load)}

    async def _calls(self) -> Figures:
        # Bounded: what was added up is kept, so the next look goes on where this one stopped.
        for _ in range(STEPS):
            if await self._store.count_calls(lost_before=self._now() - SETTLED_AFTER):
                calls, lost = await self._store.calls(), await self._store.unsettled()
                return {**spent(calls), **unsettled(calls, lost)}
        return {}


def spent(calls: Iterable[CallSums]) -> Figures:
    """Calls, tokens and costs by model and by phase."""
    by_model: dict[str, CallSums] = {}
    by_phase: dict[str, CallSums] = {}
    for line in calls:
        for lines, name in ((by_model, line.model), (by_phase, line.phase)):
            lines[name] = lines[name].plus(line) if name in lines else line
    unconfirmed = {(name,): float(line.unconfirmed) for name, line in by_model.items()}
    return {
        metrics.MODEL_CALLS_UNCONFIRMED: unconfirmed,
        **_sums(by_model, metrics.MODEL_CALLS, metrics.MODEL_TOKENS, metrics.MODEL_COST),
        **_sums(by_phase, metrics.PHASE_CALLS, metrics.PHASE_TOKENS, metrics.PHASE_COST),
    }


def unsettled(calls: Iterable[CallSums], lost: Iterable[CallSums]) -> Figures:
    """Lost calls that may still change; 0 for models without any."""
    # A model without any is told as 0: a missing sample would mean that it is not known.
    numbers = dict.fromkeys(((line.model,) for line in calls), 0.0)
    costs = numbers | {(line.model,): line.cost_usd for line in lost}
    return {
        metrics.MODEL_CALLS_UNSETTLED: numbers | {(line.model,): line.calls for line in lost},
        metrics.MODEL_COST_UNSETTLED: costs,
    }


def _sums(lines: dict[str, CallSums], calls: Metric, tokens: Metric, cost: Metric) -> Figures:
    used: dict[tuple[str, ...], float] = {}
    for name, line in lines.items():
        usage = line.usage
        used[name, INPUT] = usage.prompt_tokens - usage.cache_read_tokens
        used[name, CACHE_READ] = usage.cache_read_tokens
        used[name, OUTPUT] = usage.output_tokens
    return {
        calls: {(name,): float(line.calls) for name, line in lines.items()},
        tokens: used,
        cost: {(name,): line.cost_usd for name, line in lines.items()},
    }


def waiting(load: ServerLoad) -> Figures:
    """What waits at the server."""
    queues, clock = load.queues, load.clock
    return {
        metrics.RUNS_WAITING: {(): float(load.waiting)},
        metrics.RUNS_FAILING: _if_known(load.failing),
        metrics.RUNS_STRANDED: _if_known(load.stranded),
        metrics.STARTS_MISSED: {(name,): float(count) for name, count in clock.missed.items()},
        metrics.COLLECTION_FAILING: _if_known(clock.collection_fails),
        metrics.COLLECTION_OVERDUE: _if_known(clock.collection_overdue_s),
        metrics.QUEUE_BACKLOG: {(one.queue,): float(one.backlog) for one in queues},
        metrics.QUEUE_BACKLOG_AGE: {(one.queue,): one.age_s for one in queues},
        metrics.QUEUE_POLLERS: {(one.queue,): float(one.pollers) for one in queues},
    }


def _if_known(number: float | None) -> Samples:
    return {} if number is None else {(): float(number)}
