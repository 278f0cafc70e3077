"""Starting a run: resolve, ask every queue whether somebody is there, write the row, start once."""

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from perdure.domain.errors import InvalidInput, NotAllowed, PerdureError
from perdure.domain.names import (
    MEMO_GOAL_CHARACTERS,
    SEARCH_ATTRIBUTE_LIMIT,
    loops_queue,
    models_queue,
    run_id,
    tools_queue,
)
from perdure.domain.ports import BlobStore, RecordStore, StoredRun
from perdure.domain.result import IterationRecord
from perdure.domain.run import RolesSpec, Site
from perdure.domain.state import CoreState
from perdure.domain.status import RunStatus
from perdure.interfaces.gateway.facts import (
    ResolveModels,
    SettleRun,
    SiteFacts,
    Spec,
)
from perdure.interfaces.gateway.inputs import loop_input
from perdure.interfaces.gateway.readiness import Readiness
from perdure.interfaces.gateway.server import Look, Order, Server
from perdure.interfaces.gateway.statuses import first_status

SUMMARY_CHARACTERS = 150
FRESH_IDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What a run begins with that goes on from another: its first state, and records before it."""

    state: CoreState
    records: tuple[IterationRecord, ...] = ()


class Starter:
    """Starts runs; nothing is started when anything is missing."""

    def __init__(
        self,
        *,
        server: Server,
        readiness: Readiness,
        blobs: BlobStore,
        records: RecordStore,
        facts: SiteFacts,
        resolve: ResolveModels,
        settle: SettleRun,
        now: Callable[[], datetime],
    ) -> None:
        self._server = server
        self.readiness = readiness
        self._blobs = blobs
        self._records = records
        self._facts = facts
        self._resolve = resolve
        self._settle = settle
        self._now = now

    async def start(
        self, spec: Spec, *, run: str | None, key: str | None, beginning: Beginning | None = None
    ) -> str:
        """Start a run, or find the one that the same id or key already started.

        Raises:
            InvalidInput: no loop of this kind, or an unknown model.
            NoReadyWorker: a queue that the run needs has no worker; nothing was started.
            ModelUnavailable: its workers have no key for a model of the run, or not the model.
            NotAllowed: the id or key belongs to another specification, or the session is closed.
            NotFound: the session or project is unknown.
        """
        digest = _digest(spec, beginning)
        named = run or (run_id(spec.kind, spec.goal, f"key:{key}") if key else None)
        if named is not None and (known := await self._server.look(named)) is not None:
            return _same(known, digest)
        ready = await self._resolve(spec)
        site, busy = await self.ready_site(ready)
        for _ in range(FRESH_IDS):
            chosen = named or run_id(spec.kind, spec.goal, uuid.uuid4().hex)
            settled = await self._settle(ready, chosen)
            order = order_of(settled, chosen, site, digest=digest, state=_state_of(beginning))
            if await self._begin(settled, order, beginning, busy=busy):
                return chosen
            known = await self._server.look(chosen)
            if named is not None and known is not None:
                return _same(known, digest)
        raise NotAllowed(
            f"The id {named or 'of the run'} is taken by a run whose history is gone.",
            cure="Start it under another id.",
        )

    async def ready_site(self, spec: Spec) -> tuple[Site, str | None]:
        """Where the run will live, and who there is busy; raises `NoReadyWorker` for nobody."""
        site = await self.site(spec)
        return site, await self.readiness.require(site, spec)

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

    async def _begin(
        self, spec: Spec, order: Order, beginning: Beginning | None, *, busy: str | None
    ) -> bool:
        row = await self._row(spec, order.id, beginning, busy=busy)
        if await self._records.run(order.id) is None:
            await self._records.put_run(row)
        for record in beginning.records if beginning else ():
            await self._records.put_record(order.id, record.index, record.model_dump_json())
        try:
            return await self._server.start(order)
        except PerdureError as error:
            await self._forget_if_absent(row, error)
            raise

    async def _forget_if_absent(self, row: StoredRun, error: PerdureError) -> None:
        """Close the row of a start that certainly did not happen; else the server is right."""
        try:
            absent = await self._server.look(row.id) is None
        except PerdureError:
            return
        if absent:
            status = RunStatus.model_validate_json(row.status or "")
            told = status.model_copy(update={"dispatch": f"not started: {error.message}"})
            ended = {
                "lifecycle": "failed",
                "outcome": "failed",
                "ended_at": self._now(),
                "status": told.model_dump_json(),
            }
            await self._records.put_run(row.model_copy(update=ended))

    async def _row(
        self, spec: Spec, run: str, beginning: Beginning | None, *, busy: str | None
    ) -> StoredRun:
        now = self._now()
        state = _state_of(beginning)
        status = first_status(spec, run, now=now, dispatch=busy)
        if state is not None:
            status = status.model_copy(update={"forked_from": state.forked_from})
        return StoredRun(
            id=run,
            kind=spec.kind,
            goal=spec.goal,
            label=spec.metadata.label,
            lifecycle="running",
            outcome=None,
            started_at=now,
            status=status.model_dump_json(),
            spec=await self._blobs.put(spec.model_dump_json(by_alias=True).encode()),
        )


def _state_of(beginning: Beginning | None) -> CoreState | None:
    return None if beginning is None else beginning.state


def _digest(spec: Spec, beginning: Beginning | None) -> str:
    """What the same id or key must stand for: the specification, and where a fork began."""
    told = spec.model_dump_json()
    state = _state_of(beginning)
    if state is not None and state.forked_from is not None:
        told += state.forked_from.model_dump_json()
    return hashlib.sha256(told.encode()).hexdigest()


def definition_of(spec: Spec) -> str | None:
    """The definition that a run of roles follows, by name."""
    return spec.roles.definition if isinstance(spec, RolesSpec) else None


def order_of(
    spec: Spec,
    run: str,
    site: Site,
    *,
    digest: str,
    state: CoreState | None = None,
    again: bool = False,
) -> Order:
    """The workflow to start for a run, fresh or from a state; `again` under the same id."""
    goal = " ".join(spec.goal.split())
    label = spec.metadata.label
    keywords = {
        "PerdureKind": spec.kind,
        "PerdureLifecycle": "running",
        "PerdurePhase": "starting",
    }
    if label:
        keywords["PerdureLabel"] = label[:SEARCH_ATTRIBUTE_LIMIT]
    told = {"label": label, "definition": definition_of(spec)}
    memo = {"goal": goal[:MEMO_GOAL_CHARACTERS], "spec": digest}
    memo |= {name: value for name, value in told.items() if value}
    return Order(
        id=run,
        kind=spec.kind,
        queue=site.loops,
        input=loop_input(spec, run, site.model_copy(update={"root": run}), state),
        summary=f"{spec.kind}: {goal[:SUMMARY_CHARACTERS]}",
        memo=memo,
        keywords=keywords,
        again=again,
    )


def _same(known: Look, digest: str) -> str:
    if known.memo.get("spec") == digest:
        return known.id
    raise NotAllowed(
        f"The run {known.id} exists already, from another specification.",
        cure="Use another id or idempotency key, or send the same specification.",
    )


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
