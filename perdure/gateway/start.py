"""Starts a run: resolve models, probe every queue, write the row, start exactly once."""

import hashlib
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from perdure.domain.agent.spec import AgentSpec
from perdure.domain.agent.state import AgentInput, AgentState
from perdure.domain.budget.journal import Journal
from perdure.domain.delegation.spec import DelegationSpec
from perdure.domain.delegation.state import DelegationInput, DelegationState
from perdure.domain.foundation.errors import InvalidInput, NoRoom, NotAllowed, PerdureError
from perdure.domain.foundation.names import (
    MEMO_GOAL_CHARACTERS,
    SEARCH_ATTRIBUTE_LIMIT,
    loops_queue,
    models_queue,
    run_id,
    tools_queue,
)
from perdure.domain.ports import BlobStore, RecordStore
from perdure.domain.refine.spec import RefineSpec
from perdure.domain.refine.state import RefineInput, RefineState
from perdure.domain.roles.spec import RolesSpec
from perdure.domain.roles.state import RoleInput, RoleState
from perdure.domain.run.bookkeeping_messages import Served
from perdure.domain.run.fairness import Turn, searched_tenant
from perdure.domain.run.spec import LoopInput, Placement
from perdure.domain.run.state import LoopState
from perdure.domain.run.status import StoredRun
from perdure.domain.run.status_views import told_label
from perdure.domain.specs import Spec
from perdure.domain.turns.records import IterationRecord
from perdure.gateway.admission import Admission
from perdure.gateway.claim_run_id import Claims, ClaimState, Wish, key_digest
from perdure.gateway.readiness import Readiness
from perdure.gateway.stored_status import first_status
from perdure.gateway.temporal_gateway import StartRequest, TemporalGateway
from perdure.gateway.types import InstallationInfo, ResolveModels, SettleRun, Wanted
from perdure.gateway.unlisted_runs import Unlisted

MakeInput = Callable[[Spec, str, Placement, LoopState | None], LoopInput]


def agent_input(spec: Spec, run: str, site: Placement, state: LoopState | None) -> LoopInput:
    if not isinstance(spec, AgentSpec) or not isinstance(state, AgentState | None):
        raise TypeError(f"an agent loop is started with {_types(spec, state)}")
    return AgentInput(run=run, site=site, spec=spec, state=state)


def refine_input(spec: Spec, run: str, site: Placement, state: LoopState | None) -> LoopInput:
    if not isinstance(spec, RefineSpec) or not isinstance(state, RefineState | None):
        raise TypeError(f"a refine loop is started with {_types(spec, state)}")
    return RefineInput(run=run, site=site, spec=spec, state=state)


def role_input(spec: Spec, run: str, site: Placement, state: LoopState | None) -> LoopInput:
    if not isinstance(spec, RolesSpec) or not isinstance(state, RoleState | None):
        raise TypeError(f"a role loop is started with {_types(spec, state)}")
    return RoleInput(run=run, site=site, spec=spec, state=state)


def delegation_input(spec: Spec, run: str, site: Placement, state: LoopState | None) -> LoopInput:
    if not isinstance(spec, DelegationSpec) or not isinstance(state, DelegationState | None):
        raise TypeError(f"a delegation loop is started with {_types(spec, state)}")
    return DelegationInput(run=run, site=site, spec=spec, state=state)


LOOP_INPUTS: dict[str, MakeInput] = {
    "agent": agent_input,
    "refine": refine_input,
    "roles": role_input,
    "delegation": delegation_input,
}


def loop_input(spec: Spec, run: str, site: Placement, state: LoopState | None = None) -> LoopInput:
    """The input of the workflow that runs this specification, fresh or from a state.

    Raises:
        InvalidInput: there is no loop of that kind.
    """
    make = LOOP_INPUTS.get(spec.kind)
    if make is None:
        raise InvalidInput(
            f"kind: found {spec.kind}; runs of this kind cannot be started yet.",
            cure=f"Use one of {', '.join(sorted(LOOP_INPUTS))}.",
        )
    return make(spec, run, site, state)


def _types(spec: Spec, state: LoopState | None) -> str:
    return f"{type(spec).__name__} and {type(state).__name__}"


SUMMARY_CHARACTERS = 150
TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The first state of a forked run, and the records before it."""

    state: LoopState
    records: tuple[IterationRecord, ...] = ()


class Starter:
    """Starts runs; starts nothing if anything is missing."""

    def __init__(
        self,
        *,
        server: TemporalGateway,
        readiness: Readiness,
        blobs: BlobStore,
        records: RecordStore,
        journal: Journal,
        facts: InstallationInfo,
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
        unlisted = Unlisted(server=server, records=records, now=now)
        self.admission = Admission(server, facts, unlisted=unlisted.looks)
        self.claims = Claims(server=server, records=records, journal=journal, now=now)

    async def start(
        self,
        spec: Spec,
        *,
        run: str | None,
        key: str | None,
        beginning: Beginning | None = None,
        wanted: Wanted | None = None,
    ) -> str:
        """Start a run, or find the one that the same id or key already started.

        `wanted` ends the wait for other runs to end, once nobody waits for this one any more.

        Raises:
            InvalidInput: no loop of this kind, or an unknown model.
            NoReadyWorker: a queue that the run needs has no worker; nothing was started.
            ModelUnavailable: its workers cannot call a model of the run.
            NotAllowed: the id or key belongs to another specification or to a run that is gone,
                the session is closed, or there is no room, or nobody waits for it any more.
            NotFound: the session or project is unknown.
        """
        asked = Wish(
            run=run, key=None if key is None else key_digest(key), digest=digest_of(spec, beginning)
        )
        standing = await self.claims.standing(asked)
        if standing.done is not None:
            return standing.done
        # Ask the workers first: they have the keys, and know the default model.
        ready = await self._resolve(spec, await self.served())
        site, busy = await self.ready_site(ready)
        # Before any row is written: a start that waits or is refused leaves nothing behind.
        standing = await self._admitted(ready, site, asked, standing, wanted=wanted)
        if standing.done is not None:
            return standing.done
        # Several clients may send the same key at once. One claims the row; the others try again
        # and find its run.
        for _ in range(TRIES):
            chosen = await self._id_of(spec, asked, standing)
            if standing.row is None:
                await self.claims.require_unused(chosen)
            # This needs the id: a new project is named after its run, so that a repeat finds it.
            settled = await self._settle(ready, chosen)
            order = _order(settled, chosen, site, asked, beginning)
            # The row is written before the workflow starts. Otherwise a crash in between would
            # leave a run that spends money and is in none of our lists.
            row = await self.row(settled, order.id, beginning, asked, busy=busy)
            row = row.model_copy(update={"namespace": (await self._server.client()).namespace})
            if await self.claims.claim(row, seen=standing.row) and await self._begin(
                row, order, beginning
            ):
                return chosen
            # By the id too: the row of a refused start has released its key.
            standing = await self.claims.standing(replace(asked, run=chosen))
            if standing.done is not None:
                return standing.done
        raise NotAllowed(
            f"{run or 'The run'} is being started by somebody else at this moment.",
            cure="Look at `perdure list`, and send it again if it is not there.",
        )

    async def _admitted(
        self,
        spec: Spec,
        site: Placement,
        asked: Wish,
        standing: ClaimState,
        *,
        wanted: Wanted | None,
    ) -> ClaimState:
        """What is known of a request once there is room for its run, or once the run has begun."""

        async def still_to_start() -> bool:
            nonlocal standing
            if wanted is not None and not await wanted():
                raise NoRoom("The caller left before there was room for the run; none was started.")
            # The same request, sent again, may have been let in meanwhile.
            standing = await self.claims.standing(asked)
            return standing.done is None

        await self.admission.admit(spec.metadata.payer, queue=site.loops, go_on=still_to_start)
        return standing

    async def served(self, *, ask: bool = True) -> Served | None:
        """What the workers report of themselves; None if none has answered."""
        queue = models_queue(await self._records.installation())
        return await self.readiness.served(queue, ask=ask)

    async def resolved(self, spec: Spec, served: Served | None) -> Spec:
        """A specification, filled in and checked by what the workers report."""
        return await self._resolve(spec, served)

    async def _id_of(self, spec: Spec, asked: Wish, standing: ClaimState) -> str:
        """The run's id: the requested one, one derived from the key, or a new one."""
        if standing.row is not None:
            return standing.row.id
        if asked.run is not None:
            return asked.run
        # With a key, the id is derived from it, so that concurrent starts of two hosts collide at
        # the server. Another installation of the namespace may use the same key.
        ours = await self._records.installation()
        seed = uuid.uuid4().hex if asked.key is None else f"key:{ours}:{asked.key}"
        return run_id(spec.kind, self._facts.words(spec.goal), seed)

    async def ready_site(self, spec: Spec) -> tuple[Placement, str | None]:
        """Where the run will live, and which workers are busy; raises `NoReadyWorker` if none
        exist.
        """
        site = await self.site(spec)
        return site, await self.readiness.require(site, spec)

    async def site(self, spec: Spec) -> Placement:
        """Where a run of this specification will live."""
        installation = await self._records.installation()
        folder = spec.workspace
        workspace = await self._workspace(spec)
        return Placement(
            loops=loops_queue(installation),
            models=models_queue(installation),
            tools=tools_queue(installation, workspace or None),
            folder=folder,
            writable=spec.tools.access == "full",
            timing=self._facts.timing,
            notifies=self._facts.notifies,
            version=self._facts.version,
            label_mark=_mark(self._facts, spec.metadata.label),
            turn=self.turn(spec),
        )

    def turn(self, spec: Spec) -> Turn | None:
        """Priority and fairness of the run's tasks; None if the specification has neither."""
        key = self._facts.fairness(spec.metadata.payer)
        if key is None and spec.priority is None:
            return None
        return Turn(priority=spec.priority, fairness=key)

    async def _workspace(self, spec: Spec) -> str:
        """The id of the run's folder, which is noted as in use; empty if it has none."""
        return "" if spec.workspace is None else await self._records.workspace(spec.workspace)

    async def _begin(
        self, row: StoredRun, order: StartRequest, beginning: Beginning | None
    ) -> bool:
        # Written before the start: the records of a fork must be complete once it runs.
        for record in beginning.records if beginning else ():
            await self._records.put_record(order.id, record.index, record.model_dump_json())
        try:
            return await self._server.start(order)
        except PerdureError as error:
            await self.claims.close(row, error)
            raise

    async def row(
        self, spec: Spec, run: str, beginning: Beginning | None, asked: Wish, *, busy: str | None
    ) -> StoredRun:
        """The row of a run that is about to start; its specification is stored.

        A worker of somebody else makes it without a connection of its own, so the namespace is
        left to whoever knows it.
        """
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
            digest=asked.digest,
            start_key=asked.key,
            workspace=await self._workspace(spec),
        )


def _mark(facts: InstallationInfo, label: str | None) -> str | None:
    # Also without a label: one that the run gets later must not be shown as it is.
    return None if facts.digest is None else facts.marked(label or "")


def _state_of(beginning: Beginning | None) -> LoopState | None:
    return None if beginning is None else beginning.state


def _order(
    spec: Spec, run: str, site: Placement, asked: Wish, beginning: Beginning | None
) -> StartRequest:
    state = _state_of(beginning)
    made_at = None if state is None else state.started_at  # a fork begins when it is made
    return order_of(spec, run, site, digest=asked.digest, state=state, made_at=made_at)


def digest_of(spec: Spec, beginning: Beginning | None) -> str:
    """The digest of a request: its specification and, for a fork, its origin."""
    # Use the specification as it was sent, before models are filled in: the default model may
    # change between two requests.
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
    site: Placement,
    *,
    digest: str,
    state: LoopState | None = None,
    made_at: datetime | None = None,
    again: bool = False,
) -> StartRequest:
    """The workflow to start for a run, fresh or from a state; `again` for a retry.

    `made_at` is the time at which the state was made, by the clock that its own times go by.
    """
    goal = " ".join(spec.goal.split())
    label = spec.metadata.label
    keywords = {"PerdureKind": spec.kind, "PerdureLifecycle": "running", "PerdurePhase": "starting"}
    if shown := told_label(label, mark=site.label_mark):
        # The server terminates a workflow whose search attribute is too long.
        keywords["PerdureLabel"] = shown[:SEARCH_ATTRIBUTE_LIMIT]
    turn = site.turn or Turn()
    if called := searched_tenant(turn.fairness):
        keywords["PerdureTenant"] = called
    told = {"label": label, "tenant": spec.metadata.tenant, "definition": definition_of(spec)}
    memo = {"goal": goal[:MEMO_GOAL_CHARACTERS], "spec": digest}
    memo |= {name: value for name, value in told.items() if value}
    given = loop_input(spec, run, site.model_copy(update={"root": run}), state)
    return StartRequest(
        id=run,
        kind=spec.kind,
        queue=site.loops,
        input=given.model_copy(update={"made_at": made_at}),
        summary=f"{spec.kind}: {goal[:SUMMARY_CHARACTERS]}",
        memo=memo,
        keywords=keywords,
        turn=turn,
        again=again,
    )
