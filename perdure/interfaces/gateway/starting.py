"""Starting a run: resolve, ask every queue whether somebody is there, write the row, start once."""

import asyncio
import hashlib
import uuid
from collections.abc import Callable
from datetime import datetime

from perdure.domain.errors import InvalidInput, NoReadyWorker, NotAllowed, PerdureError
from perdure.domain.names import (
    SEARCH_ATTRIBUTE_LIMIT,
    loops_queue,
    models_queue,
    run_id,
    tools_queue,
)
from perdure.domain.ports import RecordStore, StoredRun
from perdure.domain.run import Site
from perdure.interfaces.gateway.facts import QueueState, ResolveModels, SiteFacts, Spec
from perdure.interfaces.gateway.inputs import loop_input
from perdure.interfaces.gateway.server import Look, Order, Server
from perdure.interfaces.gateway.statuses import first_status

GOAL_CHARACTERS = 400
SUMMARY_CHARACTERS = 150
FRESH_IDS = 5


class Starter:
    """Starts runs; nothing is started when anything is missing."""

    def __init__(
        self,
        *,
        server: Server,
        records: RecordStore,
        facts: SiteFacts,
        resolve: ResolveModels,
        now: Callable[[], datetime],
    ) -> None:
        self._server = server
        self._records = records
        self._facts = facts
        self._resolve = resolve
        self._now = now

    async def start(self, spec: Spec, *, run: str | None, key: str | None) -> str:
        """Start a run, or find the one that the same id or key already started.

        Raises:
            InvalidInput: no loop of this kind, or an unknown model.
            NoReadyWorker: a queue that the run needs has no worker; nothing was started.
            NotAllowed: the id or key belongs to another specification.
        """
        digest = hashlib.sha256(spec.model_dump_json().encode()).hexdigest()
        named = run or (run_id(spec.kind, spec.goal, f"key:{key}") if key else None)
        if named is not None and (known := await self._server.look(named)) is not None:
            return _same(known, digest)
        ready = await self._resolve(spec)
        site = await self.site(ready)
        await self._require(site)
        for _ in range(FRESH_IDS):
            chosen = named or run_id(spec.kind, spec.goal, uuid.uuid4().hex)
            if await self._begin(ready, chosen, site, digest):
                return chosen
            known = await self._server.look(chosen)
            if named is not None and known is not None:
                return _same(known, digest)
        raise NotAllowed(
            f"The id {named or 'of the run'} is taken by a run whose history is gone.",
            cure="Start it under another id.",
        )

    async def site(self, spec: Spec) -> Site:
        """Where a run of this specification will live."""
        installation = await self._records.installation()
        folder = spec.workspace
        workspace = None if folder is None else await self._records.workspace(folder)
        return Site(
            loops=loops_queue(installation),
            models=models_queue(installation),
            tools=tools_queue(installation, workspace),
            folder=folder,
            writable=spec.tools.access == "full",
            timing=self._facts.timing,
            notifies=self._facts.notifies,
        )

    async def readiness(self, site: Site) -> tuple[QueueState, ...]:
        """Ask every queue at once whether somebody is there."""
        states = (
            QueueState(queue=site.loops, serves="loops"),
            QueueState(queue=site.models, serves="models"),
            QueueState(queue=site.tools, serves="tools", workspace=site.folder),
        )
        return tuple(await asyncio.gather(*(self._asked(state) for state in states)))

    async def _asked(self, state: QueueState) -> QueueState:
        report = await self._server.probe(state.queue)
        if report is not None:
            return state.model_copy(update={"ready": True, "version": report.version})
        command = self._facts.worker_command(state.workspace)
        return state.model_copy(update={"cure": f"Start one with {command}."})

    async def _require(self, site: Site) -> None:
        missing = [state for state in await self.readiness(site) if not state.ready]
        if not missing:
            return
        lines = "\n".join(f"  {_where(state)}" for state in missing)
        # The most precise one says it all: one worker serves all three.
        cure = max((state.cure for state in missing), key=len)
        raise NoReadyWorker(
            f"Nobody works on {len(missing)} of the 3 queues that this run needs:\n{lines}\n"
            "Nothing was started.",
            cure=cure,
        )

    async def _begin(self, spec: Spec, run: str, site: Site, digest: str) -> bool:
        order = _order(spec, run, site.model_copy(update={"root": run}), digest)
        row = self._row(spec, run)
        if await self._records.run(run) is None:
            await self._records.put_run(row)
        try:
            return await self._server.start(order)
        except PerdureError:
            await self._forget_if_absent(row)
            raise

    async def _forget_if_absent(self, row: StoredRun) -> None:
        """Close the row of a start that certainly did not happen; else the server is right."""
        try:
            absent = await self._server.look(row.id) is None
        except PerdureError:
            return
        if absent:
            ended = {"lifecycle": "failed", "outcome": "failed", "ended_at": self._now()}
            await self._records.put_run(row.model_copy(update=ended))

    def _row(self, spec: Spec, run: str) -> StoredRun:
        now = self._now()
        return StoredRun(
            id=run,
            kind=spec.kind,
            goal=spec.goal,
            label=spec.metadata.label,
            lifecycle="running",
            outcome=None,
            started_at=now,
            status=first_status(spec, run, now=now).model_dump_json(),
        )


def _order(spec: Spec, run: str, site: Site, digest: str) -> Order:
    goal = " ".join(spec.goal.split())
    label = spec.metadata.label
    keywords = {
        "PerdureKind": spec.kind,
        "PerdureLifecycle": "running",
        "PerdurePhase": "starting",
    }
    if label:
        keywords["PerdureLabel"] = label[:SEARCH_ATTRIBUTE_LIMIT]
    memo = {"goal": goal[:GOAL_CHARACTERS], "spec": digest} | ({"label": label} if label else {})
    return Order(
        id=run,
        kind=spec.kind,
        queue=site.loops,
        input=loop_input(spec, run, site),
        summary=f"{spec.kind}: {goal[:SUMMARY_CHARACTERS]}",
        memo=memo,
        keywords=keywords,
    )


def _same(known: Look, digest: str) -> str:
    if known.memo.get("spec") == digest:
        return known.id
    raise NotAllowed(
        f"The run {known.id} exists already, from another specification.",
        cure="Use another id or idempotency key, or send the same specification.",
    )


def _where(state: QueueState) -> str:
    folder = f" for the folder {state.workspace}" if state.workspace else ""
    return f"{state.serves}: queue {state.queue}{folder}"


def checked_id(run: str) -> str:
    """A run id that a caller chose.

    Raises:
        InvalidInput: it has characters that ids do not have, or is too long.
    """
    plain = run.replace("-", "").replace("_", "").replace(".", "")
    if not plain.isascii() or not plain.isalnum() or len(run) > 120:
        raise InvalidInput(
            f"The run id {run!r} is not usable.",
            cure="Use up to 120 letters, digits, dashes, dots and underscores.",
        )
    return run
